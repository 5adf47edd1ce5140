"""The files of the project, as the tests about the project see them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"
NOT_OURS = {".git", ".venv", ".scratch", "__pycache__", "node_modules", "build", "dist"}


@cache
def files() -> tuple[Path, ...]:
    """Every file that git knows or would add; in a copy without git, every file but caches."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
        return tuple(ROOT / name for name in sorted(names) if name and (ROOT / name).is_file())
    return tuple(sorted(_walk(ROOT)))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in NOT_OURS or path.name.endswith(("_cache", ".egg-info")):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def modules() -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and PACKAGE in path.parents]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
