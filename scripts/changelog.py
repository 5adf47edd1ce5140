"""Moves the fragments of changelog.d into CHANGELOG.md: `python scripts/changelog.py 0.2.0`."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("added", "changed", "fixed", "removed")


def release(version: str) -> str:
    """The new section; its fragments are deleted."""
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    section = [f"## {version} ({today})", ""]
    for kind in KINDS:
        fragments = sorted((ROOT / "changelog.d").glob(f"*.{kind}.md"))
        if fragments:
            section += [f"### {kind.capitalize()}", ""]
            section += ["- " + path.read_text().strip().replace("\n", "\n  ") for path in fragments]
            section += [""]
        for path in fragments:
            path.unlink()
    return "\n".join(section)


def main(version: str) -> None:
    changelog = ROOT / "CHANGELOG.md"
    head, marker, older = changelog.read_text().partition("\n## ")
    changelog.write_text(
        f"{head.rstrip()}\n\n{release(version)}{marker and chr(10)}{marker[1:]}{older}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
