"""What this machine allows with no supervisor in between: the figures that ratios are made of."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from bench.lab import PYTHON, Reports, cpu_seconds, environment, median, program, pss_mib

COPY = """
import os
try:
    while os.splice(0, 1, 1 << 20):
        pass
except AttributeError:
    while data := os.read(0, 1 << 20):
        os.write(1, data)
"""

ECHO = """
import asyncio, sys
async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
async def main():
    async with await asyncio.start_unix_server(serve, sys.argv[1]) as server:
        print(flush=True)
        await server.serve_forever()
asyncio.run(main())
"""


class Bench:
    """A folder and a FIFO for one measurement without a supervisor."""

    def __enter__(self) -> Bench:
        self.work = Path(tempfile.mkdtemp(prefix="hfb-", dir="/tmp"))
        self.reports = Reports(self.work / "reports")
        return self

    def __exit__(self, *_: object) -> None:
        self.reports.close()
        shutil.rmtree(self.work, ignore_errors=True)


def spawn(count: int) -> float:
    """Seconds until so many processes, started by a loop of Popen, have reported."""
    with Bench() as bench:
        begun = time.monotonic()
        children = [
            subprocess.Popen(
                program("ready.sh", bench.reports.path, f"s{number}"),
                env=environment(),
                stdin=subprocess.DEVNULL,
            )
            for number in range(count)
        ]
        bench.reports.wait(count)
        seconds = time.monotonic() - begun
        for child in children:
            child.kill()
        for child in children:
            child.wait()
        return seconds


def flood(writers: int, size: int) -> tuple[float, float]:
    """Seconds and CPU seconds of one splicing process per writer, with 1 MiB pipes."""
    with Bench() as bench:
        go = bench.work / "go"
        copiers = []
        sources = []
        for number in range(writers):
            read_end, write_end = os.pipe()
            try:
                fcntl.fcntl(write_end, 1031, 1 << 20)
            except OSError:
                pass
            argv = program("flood.py", bench.reports.path, f"w{number}", go, size)
            sources.append(subprocess.Popen(argv, stdout=write_end, env=environment()))
            with open(bench.work / f"w{number}", "wb") as target:
                copier = [PYTHON, "-I", "-S", "-c", COPY]
                copiers.append(
                    subprocess.Popen(copier, stdin=read_end, stdout=target, env=environment())
                )
            os.close(read_end)
            os.close(write_end)
        bench.reports.wait(writers)
        time.sleep(0.3)
        go.touch()
        cpu = 0.0
        for process in copiers:
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
            cpu += usage.ru_utime + usage.ru_stime
        done = time.monotonic()
        for process in sources:
            process.wait()
        bench.reports.wait(2 * writers)
        begun = min(n for name, n in bench.reports.numbers().items() if name.endswith(".begin"))
        return done - begun / 1e9, cpu


def restart(count: int) -> list[float]:
    """Milliseconds from SIGKILL to the replacement's report, by pidfd and posix_spawn."""
    with Bench() as bench:
        argv = program("ready.sh", bench.reports.path, "s")
        pid = os.posix_spawn(argv[0], argv, environment())
        bench.reports.wait(1)
        latencies = []
        for number in range(count):
            time.sleep(0.1)
            begun = time.monotonic()
            fd = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            select.select([fd], [], [], 10)
            os.close(fd)
            os.waitpid(pid, 0)
            pid = os.posix_spawn(argv[0], argv, environment())
            bench.reports.wait(number + 2)
            latencies.append((bench.reports.seen[-1][0] - begun) * 1000)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return latencies


def echo(count: int) -> float:
    """Milliseconds, p50, of a round trip through an asyncio server on a Unix socket."""
    with Bench() as bench:
        path = str(bench.work / "e.sock")
        server = subprocess.Popen(
            [PYTHON, "-I", "-c", ECHO, path], stdout=subprocess.PIPE, env=environment()
        )
        with server:
            assert server.stdout is not None
            server.stdout.readline()
            latencies = []
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                for _ in range(count):
                    begun = time.perf_counter()
                    client.sendall(b"x" * 99 + b"\n")
                    client.recv(200)
                    latencies.append((time.perf_counter() - begun) * 1000)
            server.kill()
        return median(latencies)


def python_wall(count: int) -> list[float]:
    """Milliseconds that `python -c pass` takes, with the interpreter of the environment."""
    return [wall_ms([PYTHON, "-c", "pass"]) for _ in range(count)]


def wall_ms(argv: list[str], cwd: Path | None = None) -> float:
    begun = time.monotonic()
    subprocess.run(argv, env=environment(), cwd=cwd, stdout=subprocess.DEVNULL, check=True)
    return (time.monotonic() - begun) * 1000


def bare_python() -> tuple[float, float]:
    """PSS in MiB and CPU % of an interpreter that does nothing."""
    argv = [PYTHON, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = cpu_seconds([process.pid])
        time.sleep(1)
        result = pss_mib([process.pid]), (cpu_seconds([process.pid]) - before) * 100
        process.kill()
        return result
