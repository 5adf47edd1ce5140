"""Reading a long log on the command line, beside ripgrep over the same files.

Ripgrep neither orders two streams nor hides secrets. For all of the log it is given the texts in
front of secrets that Holdfast looks for, because that is the least that redaction has to do.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.finding import Finding, interleaved, judged, listed
from bench.lab import Trial, environment, median, wait_until
from bench.peers import Holdfast, Service
from holdfast.adapters.search import program
from holdfast.secrets.finder import FORMATS, NAMES

LOG_BYTES = 200_000_000
NEEDLE = "needle number 4000"

PRINT = f"""
import random, sys, time
chance = random.Random(5)
words = "request served user cart page cache miss query took rows worker done queue retry".split()
pool = [
    "2026-01-01T05:%02d:%02d.%03dZ INFO [web] %s id=%d\\n"
    % (chance.randrange(60), chance.randrange(60), chance.randrange(1000),
       " ".join(chance.choices(words, k=8)), chance.randrange(10**9))
    for _ in range(20000)
]
size = number = 0
while size < {LOG_BYTES}:
    number += 1
    text = "".join(chance.choices(pool, k=200))
    if number % 10 == 0:
        text += "needle number %d here password=hunter2secret\\n" % number
    sys.stdout.write(text)
    size += len(text)
sys.stdout.write("the end of it\\n")
sys.stdout.flush()
time.sleep(100000)
"""


class _Took(NamedTuple):
    wall: float
    cpu: float


def _run(argv: list[str], output: Path | None = None) -> _Took:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with open(output or os.devnull, "wb") as file:
        done = subprocess.run(argv, stdout=file, env=environment(), timeout=300)
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Took(time.monotonic() - begun, cpu)


def reading(rounds: int) -> Finding:
    """`logs --grep`, `logs` of everything, `logs --tail`."""
    with Trial(Holdfast) as trial:
        service = Service("printer", [sys.executable, "-c", PRINT])
        trial.up([service], reports=0)
        peer = trial.peer
        assert isinstance(peer, Holdfast)
        folder = peer.state / "logs"
        logs = [str(peer.command), "-C", str(trial.work), "--state-dir", str(peer.state)]
        logs += ["logs", "printer"]

        def is_written() -> bool:
            return sum(path.stat().st_size for path in folder.glob("printer.*.out")) >= LOG_BYTES

        wait_until(is_written, 120, "the log")
        time.sleep(0.5)
        rg = program.find(environment()["PATH"])
        assert rg is not None, "ripgrep is installed with Holdfast"
        texts = trial.work / "texts"
        texts.write_text("\n".join([*NAMES, *FORMATS]))
        files = [str(path) for path in sorted(folder.glob("printer.*.out"))]
        secrets = [rg, "-a", "-c", "-i", "-F", "-f", str(texts), *files]
        results = interleaved(
            max(3, min(rounds, 5)),
            {
                "rg": lambda: _run([rg, "-a", "-I", NEEDLE, *files]),
                "grep": lambda: _run([*logs, "--grep", NEEDLE]),
                "rg_secrets": lambda: _run(secrets),
                "all": lambda: _run(logs, trial.work / "all"),
                "tail": lambda: _run([*logs, "--tail", "100"]),
            },
        )
    grep = {name: median([took.wall for took in results[name]]) for name in ("rg", "grep")}
    cpu = {name: median([took.cpu for took in results[name]]) for name in ("rg_secrets", "all")}
    tail = median([took.wall for took in results["tail"]])
    ratios = grep["grep"] / grep["rg"], cpu["all"] / cpu["rg_secrets"]
    is_met = ratios[0] <= 3 and ratios[1] <= 3 and tail <= 0.3
    return Finding(
        f"reading a log of {LOG_BYTES // 1_000_000} MB",
        f"rg {grep['rg']:.2f} s; rg for the texts before secrets {cpu['rg_secrets']:.2f} s CPU",
        "–",
        f"logs --grep {grep['grep']:.2f} s; all of it {cpu['all']:.2f} s CPU; --tail {tail:.2f} s",
        f"{ratios[0]:.1f}× rg; {ratios[1]:.1f}× the CPU of rg",
        "≤ 3× rg each, --tail at once",
        judged(is_met, [took.wall for took in results["rg"]]),
        {
            name: {
                "wall_s": listed([t.wall for t in runs], 2),
                "cpu_s": listed([t.cpu for t in runs], 2),
            }
            for name, runs in results.items()
        },
    )
