"""Runs the tests and tells which lines of the package ran: `scripts/test --coverage`.

Keeper, supervisor and gate run without site-packages, so a copy of the installed package starts the
measuring itself. What a process ran that was killed, or that became another by exec, is not
counted: the figure is a lower bound. Tests that weigh imports or memory may fail here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".scratch" / "coverage"
SITE = FOLDER / "site"
SETTINGS = FOLDER / "settings"
START = """
import os as _os, sys as _sys
_os.environ["COVERAGE_PROCESS_START"] = {settings!r}
_sys.path.append({packages!r})
import coverage as _coverage
_sys.path.pop()
_coverage.process_startup()
"""


def prepare() -> None:
    """Make the copy that measures itself."""
    packages = Path(sysconfig.get_path("purelib"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(packages / "holdfast", SITE / "holdfast")
    with (SITE / "holdfast" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write(START.format(settings=str(SETTINGS), packages=str(packages)))
    SETTINGS.write_text(
        f"[run]\nparallel = true\nsigterm = true\ndata_file = {FOLDER / 'data'}\n"
        f"source = {SITE / 'holdfast'}\n[report]\nexclude_also = if TYPE_CHECKING:\n"
    )


def tell() -> None:
    """Print a line for each folder of the package, and the whole."""
    measure = [sys.executable, "-m", "coverage"]
    settings = f"--rcfile={SETTINGS}"
    subprocess.run([*measure, "combine", "-q", settings], check=True)
    for room in sorted(path for path in (SITE / "holdfast").iterdir() if path.is_dir()):
        if any(room.glob("**/*.py")):
            total = _total([*measure, "report", settings, f"--include={room}/*"])
            print(f"coverage: {room.name:<12} {total:>3} %")
    print(f"coverage: {'all':<12} {_total([*measure, 'report', settings]):>3} %")


def _total(argv: list[str]) -> str:
    done = subprocess.run([*argv, "--format=total"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def main(arguments: list[str]) -> int:
    prepare()
    environ = {**os.environ, "PYTHONPATH": str(SITE)}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=ROOT, env=environ, check=False
    )
    tell()
    return tested.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
