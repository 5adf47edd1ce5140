"""Tools of measuring: a folder and a report FIFO per trial, CPU and memory of processes, clean-up.

Everything a trial starts carries a marker in its environment; what carries it when the trial ends
is killed by its id.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.peers import Peer, Service

PROGRAMS = Path(__file__).resolve().parent / "programs"
MARKER = "HOLDFAST_BENCH_RUN"
RUN = f"{os.getpid()}-{time.time_ns()}"
PYTHON = sys.executable
SETTLE_SECONDS = 4.0


def program(name: str, *arguments: object) -> list[str]:
    path = PROGRAMS / name
    prefix = [PYTHON, "-I", "-S"] if path.suffix == ".py" else []
    return [*prefix, str(path), *map(str, arguments)]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    # The doors are measured by their own cases; ports of this machine are nobody's here.
    kept |= {"HOLDFAST_TCP": "off", "HOLDFAST_HTTP": "off"}
    return {**kept, MARKER: RUN}


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that these processes have used, their ended threads included."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime((~pid << 3) | 2)
        except OSError:
            continue
    return total


def pss_mib(pids: Iterable[int]) -> float:
    """Proportional memory of these processes."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total / 1024


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(probe: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true answer of the probe; TimeoutError after the deadline."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.002)
    return answer


def when_gone(pids: Iterable[int], seconds: float) -> float | None:
    """The moment (monotonic) when the last of these processes ended, or None."""
    poller, left = select.poll(), set()
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        left.add(fd)
        poller.register(fd, select.POLLIN)
    last, deadline = time.monotonic(), time.monotonic() + seconds
    try:
        while left and time.monotonic() < deadline:
            for fd, _ in poller.poll(50):
                last = time.monotonic()
                poller.unregister(fd)
                os.close(fd)
                left.discard(fd)
        return None if left else last
    finally:
        for fd in left:
            os.close(fd)


class Reports:
    """A FIFO on which the programs of a trial report `NAME NUMBER`."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self.seen: list[tuple[float, str, int]] = []

    def wait(self, count: int, seconds: float = 120.0) -> None:
        """Reads until so many reports have come in all."""
        deadline = time.monotonic() + seconds
        while len(self.seen) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{len(self.seen)} of {count} reports after {seconds} s")
            if not select.select([self._fd], [], [], left)[0]:
                continue
            *lines, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
            now = time.monotonic()
            for line in lines:
                name, number = line.decode().split()
                self.seen.append((now, name, int(number)))

    def numbers(self) -> dict[str, int]:
        return {name: number for _, name, number in self.seen}

    def close(self) -> None:
        os.close(self._fd)


def marked() -> list[int]:
    """Live processes that this run started."""
    token, found = f"{MARKER}={RUN}".encode(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environ = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if token in environ.split(b"\0") and is_alive(int(entry)):
            found.append(int(entry))
    return found


def sweep(first: Iterable[int] = (), seconds: float = 20.0) -> None:
    """Kills what this run started: the supervisors first, so that nothing is restarted."""
    deadline = time.monotonic() + seconds
    victims = list(first)
    while time.monotonic() < deadline:
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        victims = marked()
        if not victims:
            return
        time.sleep(0.02)
    raise TimeoutError(f"could not end {victims}")


class Trial:
    """One peer in a fresh folder; everything it started is gone afterwards."""

    def __init__(self, peer: type[Peer]) -> None:
        self.work = Path(tempfile.mkdtemp(prefix="hfb-", dir="/tmp"))
        self.reports = Reports(self.work / "reports")
        self.peer = peer(self.work, None, environment())

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            sweep(self.peer.own_pids())
        finally:
            self.peer.close()
            self.reports.close()
            shutil.rmtree(self.work, ignore_errors=True)

    def settle(self) -> None:
        """Until a peer's start is over, what it put off to its first seconds included: that is
        part of no figure but the start's."""
        time.sleep(SETTLE_SECONDS)

    def up(self, services: list[Service], reports: int | None = None) -> float:
        """Starts the peer with these services; seconds until all have reported."""
        self.peer.configure(services)
        begun = time.monotonic()
        self.peer.start()
        self.reports.wait(len(services) if reports is None else reports)
        return time.monotonic() - begun
