"""Compare ways to bring output into files: a bare splice loop, cat, and the Recorder.

Usage: python bench/recorder.py [--rounds N] [--cases 1x200,20x10,small,idle] [--ways …]
Rounds are interleaved; every run is printed (MB/s and CPU seconds of the taking side),
because one run proves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WRITER = """
import os, sys
size, block = int(sys.argv[1]), int(sys.argv[2])
data = (b"x" * 99 + b"\\n") * (block // 100)
sys.stdin.read(1)
while size > 0:
    size -= os.write(1, data[:size])
"""
SMALL_WRITER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long size = atol(argv[1]); long block = atol(argv[2]);
    char *data = malloc(block); memset(data, 'x', block); data[block - 1] = '\\n';
    char go; if (read(0, &go, 1) < 0) return 1;
    for (; size > 0; size -= block) if (write(1, data, block) < 0) return 1;
    return 0;
}
"""
CASES = {
    "1x200": (1, 200_000_000, 65_000),
    "20x10": (20, 10_000_000, 65_000),
    "small": (1, 100_000_000, 100),
}
WAYS = ("splice", "cat", "recorder")


def start_writers(case: str, outs: list[int]) -> list[subprocess.Popen[bytes]]:
    _, size, block = CASES[case]
    command = [sys.executable, "-c", WRITER] if block > 4096 else [os.environ["SMALL_WRITER"]]
    arguments = [*command, str(size), str(block)]
    return [subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=out) for out in outs]


def go(writers: list[subprocess.Popen[bytes]]) -> None:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"g")
        writer.stdin.flush()


def take_by_splice(directory: str, reads: list[int]) -> None:
    import fcntl

    poll = select.epoll()
    files = {}
    for fd in reads:
        fcntl.fcntl(fd, 1031, 1 << 20)
        os.set_blocking(fd, False)
        files[fd] = os.open(f"{directory}/{fd}", os.O_WRONLY | os.O_CREAT)
        poll.register(fd, select.EPOLLIN)
    while files:
        for fd, _ in poll.poll():
            if not os.splice(fd, files[fd], 1 << 20, flags=3):
                poll.unregister(fd)
                del files[fd]


def take_by_recorder(directory: str, reads: list[int]) -> None:
    from holdfast.keeper.loop import Loop
    from holdfast.keeper.recorder import Recorder

    loop = Loop()
    recorders = []
    left = len(reads)

    def on_eof() -> None:
        nonlocal left
        left -= 1
        if not left:
            loop.stop()

    for number, fd in enumerate(reads):
        recorder = Recorder(
            directory,
            f"service{number}",
            16 << 20,
            256 << 20,
            loop,
            lambda *_: None,
            lambda *_: None,
        )
        recorder.begin_run(1)
        recorder.attach(fd, "out", on_eof=on_eof)
        recorders.append(recorder)
    loop.run()
    for recorder in recorders:
        recorder.close()


def run(way: str, case: str) -> None:
    """One measurement in this process; prints its figures."""
    count = CASES[case][0]
    directory = tempfile.mkdtemp(prefix="holdfast-bench-")
    pipes = [os.pipe() for _ in range(count)]
    writers = start_writers(case, [write for _, write in pipes])
    for _, write in pipes:
        os.close(write)
    reads = [read for read, _ in pipes]
    time.sleep(0.3)
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.monotonic()
    cats = []
    if way == "cat":
        for number, fd in enumerate(reads):
            with open(f"{directory}/{number}", "wb") as file:
                cats.append(subprocess.Popen(["cat"], stdin=fd, stdout=file))
            os.close(fd)
        go(writers)
        cpu = sum(sum(os.wait4(cat.pid, 0)[2][:2]) for cat in cats)
    else:
        go(writers)
        (take_by_splice if way == "splice" else take_by_recorder)(directory, reads)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.monotonic() - begin
    taken = sum(
        entry.stat().st_size for entry in os.scandir(directory) if not entry.name.endswith(".idx")
    )
    shutil.rmtree(directory)
    for writer in writers:
        writer.wait()
    expected = count * CASES[case][1]
    if taken != expected:
        sys.exit(f"{way} {case}: {taken} of {expected} bytes")
    print(json.dumps({"rate": expected / seconds / 1e6, "cpu": cpu, "seconds": seconds}))


def build_small_writer(directory: str) -> str:
    source, program = f"{directory}/writer.c", f"{directory}/writer"
    with open(source, "w") as file:
        file.write(SMALL_WRITER)
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return program


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--one", nargs=2, metavar=("WAY", "CASE"))
    options = parser.parse_args()
    if options.one:
        run(*options.one)
        return
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}/src",
            "SMALL_WRITER": build_small_writer(directory),
        }
        for case in options.cases.split(","):
            figures: dict[str, list[dict[str, float]]] = {}
            for _ in range(options.rounds):
                for way in options.ways.split(","):
                    command = [sys.executable, __file__, "--one", way, case]
                    answer = subprocess.run(
                        command, env=environment, check=True, stdout=subprocess.PIPE
                    )
                    figures.setdefault(way, []).append(json.loads(answer.stdout))
            for way, runs in figures.items():
                rates = " ".join(f"{one['rate']:.0f}" for one in runs)
                cpus = " ".join(f"{one['cpu']:.2f}" for one in runs)
                median = statistics.median(one["rate"] for one in runs)
                print(f"{case:6} {way:9} {rates} MB/s (median {median:.0f}) · CPU {cpus} s")


if __name__ == "__main__":
    main()
