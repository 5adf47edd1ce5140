"""What the whole machine uses: processors and memory. Two small reads on Linux, else psutil."""

from __future__ import annotations

import os
import sys

import msgspec


class HostUsage(msgspec.Struct, frozen=True):
    """The machine at one moment."""

    busy_seconds: float
    """Since boot, of all processors together, without idle time."""
    all_seconds: float
    memory_used: int
    """In use, and not available to other programs."""
    memory_total: int

    def percent_since(self, before: HostUsage) -> float | None:
        """Return the CPU use in percent of all processors; None if no time has passed."""
        passed = self.all_seconds - before.all_seconds
        if passed <= 0:
            return None
        return min(100.0, max(0.0, 100 * (self.busy_seconds - before.busy_seconds) / passed))

    @property
    def memory_percent(self) -> float:
        return 100 * self.memory_used / self.memory_total if self.memory_total else 0.0


def host_usage() -> HostUsage:
    return _linux() if sys.platform == "linux" else _portable()


def _portable() -> HostUsage:
    import psutil

    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    whole = sum(times)
    idle = times.idle + getattr(times, "iowait", 0.0)
    return HostUsage(whole - idle, whole, memory.total - memory.available, memory.total)


def _linux() -> HostUsage:
    ticks = os.sysconf("SC_CLK_TCK")
    with open("/proc/stat", "rb", 0) as file:
        # user nice system idle iowait irq softirq steal; guest time is in user already
        numbers = [int(word) / ticks for word in file.readline().split()[1:9]]
    idle = numbers[3] + numbers[4]
    memory: dict[bytes, int] = {}
    with open("/proc/meminfo", "rb") as file:
        for line in file.read(512).splitlines():
            name, _, rest = line.partition(b":")
            if rest.endswith(b" kB"):
                memory[name] = int(rest.split()[0]) * 1024
    total = memory.get(b"MemTotal", 0)
    free = memory.get(b"MemAvailable", memory.get(b"MemFree", total))
    return HostUsage(sum(numbers) - idle, sum(numbers), total - free, total)
