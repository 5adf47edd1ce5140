"""Measures Holdfast, the machine's limits and supervisord in one run: `python -m bench`.

Writes docs/benchmarks.md, and every number to docs/benchmarks.json. Loopback only; whatever it
starts is ended, also when it is interrupted. Not in the table: `python -m bench.viewers`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import cases
from bench.assistants import assistants
from bench.fanout import many_viewers
from bench.finding import Finding
from bench.gate import at_rest, rate, unharmed
from bench.growth import growth
from bench.lab import sweep
from bench.reading import reading
from bench.sampling import sampling

CASES: dict[str, Callable[[int], Finding]] = {
    "log": cases.log_one,
    "log20": cases.log_twenty,
    "spawn": cases.spawn,
    "restart": cases.restart,
    "idle": cases.idle,
    "status": cases.status,
    "cli": cases.cli,
    "stop": cases.stop,
    "small": cases.small,
    "relaunch": cases.relaunch,
    "storm": cases.storm,
    "killed": cases.killed,
    "tree": cases.tree,
    "sampling": sampling,
    "mcp": assistants,
    "http": rate,
    "flooded": unharmed,
    "rest": at_rest,
    "fanout": many_viewers,
    "reading": reading,
    "growth": growth,
}
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LONGEST_SECONDS = 45 * 60
STARTED = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def measure(names: list[str], rounds: int) -> dict[str, Any]:
    """The findings by case; a case that breaks is told, not hidden."""
    results: dict[str, Any] = {}
    for name in names:
        begun = time.monotonic()
        try:
            found: dict[str, Any] = asdict(CASES[name](rounds))
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            sweep()
            found = asdict(
                Finding(name, "", "", f"broken: {type(error).__name__}: {error}", "", "", False)
            )
        found["took_seconds"] = round(time.monotonic() - begun, 1)
        found["load_average"] = os.getloadavg()[0]
        found["run"] = STARTED
        results[name] = found
        verdict = {True: "met", False: "MISSED", None: "unsure"}[found["is_met"]]
        print(
            f"{name}: {found['ours']} ({found['ratio']}; {found['target']}): {verdict}", flush=True
        )
    return results


def commit() -> str:
    """What was measured; a tree that is being edited measures no version at all."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    changed = " with uncommitted changes" if git("status", "--porcelain", "src") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


COMMIT = commit()


def facts(rounds: int) -> dict[str, Any]:
    return {
        "date": STARTED,
        "commit": COMMIT,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rounds": rounds,
        "cgroup": os.environ.get("HOLDFAST_CGROUP", "as found"),
    }


HOW = """\
«peer» is supervisord 4.3, unless a cell names another; «limit» is what the machine allows with no
supervisor in between. Both supervisors run with rotation off and no delay configured for restarts;
neither waits for a start to prove itself. Holdfast's network doors are off except in the rows about
them, so memory is that of keeper and supervisor alone.

«load» is the machine's load average when the case ended: on a busy machine the figures of all
columns suffer, and short ones most. «unsure»: the limit's own runs differ by more than half, and a
limit that is lowered by load flatters what is compared with it.
"""


def origin(date: str, results: dict[str, Any]) -> str:
    """Says which rows come from another run than the page's: choosing runs is choosing results."""
    others = [f"{name} ({found['run']})" for name, found in results.items() if found["run"] != date]
    if not others:
        return "All rows are from one uninterrupted run."
    return f"**Not one run:** kept from others (`--merge`): {', '.join(others)}."


def row(found: dict[str, Any]) -> str:
    cells = [found[key] for key in ("case", "limit", "peer", "ours", "ratio", "target")]
    verdict = {True: "yes", False: "**no**", None: "**unsure**"}[found["is_met"]]
    load = f"{found['load_average']:.1f}"
    return f"| {' | '.join([*cells, verdict, load])} |"


def markdown(document: dict[str, Any]) -> str:
    about, results = document["facts"], document["cases"]
    met = sum(found["is_met"] is True for found in results.values())
    lines = [
        "# Benchmarks",
        "",
        "<!-- Made by scripts/bench; do not edit. -->",
        "",
        f"Commit {about['commit']}, {about['system']}, {about['cores']} cores, "
        f"Python {about['python']}, {about['date']}. "
        "All figures of a row are from one run, taken in turn; compare within a row only. "
        "Every single run is in [benchmarks.json](benchmarks.json).",
        "",
        f"**{met} of {len(results)} targets met.**",
        "",
        "| case | limit of the machine | peer | Holdfast | ratio | target | met | load |",
        "|---|---|---|---|---|---|---|---|",
        *(row(found) for found in results.values()),
        "",
        HOW,
        origin(about["date"], results),
        "",
        "## Every run of the floods",
        "",
        "| case | who | MB/s | CPU s |",
        "|---|---|---|---|",
    ]
    for found in (results[name] for name in ("log", "log20") if name in results):
        for who, runs in found["runs"].items():
            lines.append(f"| {found['case']} | {who} | {runs['mb_per_s']} | {runs['cpu_s']} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases, instead of --cases")
    parser.add_argument("--cases", default=",".join(CASES), help="of: " + ", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=7, help="interleaved runs of the floods")
    parser.add_argument("--merge", action="store_true", help="keep other cases of the last run")
    parser.add_argument("--dry", action="store_true", help="print only; write nothing to docs")
    options = parser.parse_args()
    names = options.names or options.cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(CASES)}")
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(f"ended by signal {number}"))
    signal.alarm(LONGEST_SECONDS)
    try:
        results = measure(names, options.rounds)
    finally:
        sweep()
    target = DOCS / "benchmarks.json"
    if options.merge and target.exists():
        older = json.loads(target.read_text())["cases"]
        results = {
            name: results.get(name) or older[name] for name in CASES if name in {*results, *older}
        }
    document = {"facts": facts(options.rounds), "cases": results}
    if options.dry:
        print(markdown(document))
        return 0
    target.write_text(json.dumps(document, indent=1) + "\n")
    (DOCS / "benchmarks.md").write_text(markdown(document))
    print(f"written: {DOCS / 'benchmarks.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
