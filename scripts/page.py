"""Checks the page of the dashboard: `lint` (needs no Node), `types` (tsc), `tests` (Node's own).

`packages`, and what needs them, installs web/node_modules when the lock changed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import hatch_build  # noqa: E402

WEB = ROOT / "web"
LONGEST_LINE = 120
BANNED = {
    r"\b(inner|outer)HTML\b|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write": (
        "text becomes text nodes, never markup"
    ),
    r"\beval\(|new Function\(": "no code from text",
    r"\bconsole\.": "the page logs nothing",
    r"\bdebugger\b": "not in a release",
    r"@ts-(ignore|nocheck|expect-error)": "types are mended, not silenced",
    r"""["'`]https?://""": "nothing is asked of another host",
    r"[ \t]$": "white space at the end of a line",
}
GENERATED = {"api.gen.ts"}


def sources() -> list[Path]:
    found = [path for path in (WEB / "src").rglob("*") if path.suffix in (".ts", ".tsx", ".css")]
    return sorted(found)


def lint() -> list[str]:
    """Return what is wrong with the sources, a line for each place."""
    found = []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, start=1):
            if path.name not in GENERATED and len(line) > LONGEST_LINE:
                found.append(f"{name}:{number}: longer than {LONGEST_LINE} characters")
            if path.suffix == ".css":
                continue
            for pattern, why in BANNED.items():
                if re.search(pattern, line):
                    found.append(f"{name}:{number}: {why}")
        if lines[-1]:
            found.append(f"{name}: no newline at its end")
    return found


def run(*command: str) -> int:
    """Run a program of Node in web/, with the packages that the lock names; none: only install."""
    node = hatch_build.find_node()
    if node is None:
        print("page: no Node; scripts/node fetches one", file=sys.stderr)
        return 1
    try:
        hatch_build.install(*node)
    except hatch_build.BuildFailed as error:
        print(f"page: {error}", file=sys.stderr)
        return 1
    if not command:
        return 0
    environ = hatch_build.environment(node[0])
    return subprocess.run([node[0], *command], cwd=WEB, env=environ, check=False).returncode


def main(arguments: list[str]) -> int:
    match arguments:
        case ["lint"]:
            found = lint()
            print(*found, sep="\n", end="\n" if found else "")
            return 1 if found else 0
        case ["packages"]:
            return run()
        case ["types"]:
            return run("node_modules/typescript/bin/tsc", "--noEmit", "-p", ".")
        case ["tests"]:
            tests = sorted(
                path.relative_to(WEB).as_posix() for path in WEB.rglob("src/**/*.test.ts")
            )
            return run(
                "--test",
                "--test-timeout=20000",
                "--test-reporter=dot",
                "--experimental-strip-types",
                *tests,
            )
        case _:
            print("usage: scripts/page.py lint|packages|types|tests", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
