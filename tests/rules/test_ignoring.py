"""Ignore files mean what git takes them to mean."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.rules.text import ignore_files

PATHS = [
    *("a", "b.log", "a/b", "a/b.log", "a/b/c", "build/x", "a/build/x", "x/y/z/b.log", "#a", "!a"),
    *("a b", "a ", "foo/bar", "foo/x/bar", "foo/x/y/bar", "[a]", "a*b", "axb", "Z", "-", "é"),
]
PARTS = [
    "a",
    "b",
    "*",
    "**",
    "?",
    "*.log",
    "build",
    "foo",
    "bar",
    "[ab]",
    "[!a]",
    "[a-z]",
    "x",
    "é",
]
LINES = st.builds(
    lambda negated, anchored, parts, folder: (
        ("!" if negated else "") + ("/" if anchored else "") + "/".join(parts) + ("/" * folder)
    ),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
    st.booleans(),
)
ODD = st.sampled_from(
    [
        "",
        "# x",
        r"\#a",
        r"\!a",
        "a ",
        r"a\ ",
        "a\\",
        "[",
        "[]a]",
        "[[:alpha:]]",
        "***",
        "**a",
        "a\r",
    ]
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ignoring")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for path in PATHS:
        place = folder / path
        if place.exists():
            continue
        for above in reversed(place.relative_to(folder).parents):
            if (folder / above).is_file():
                (folder / above).unlink()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
    return folder


def ignored(text: str, path: str, folder: Path) -> bool:
    """As a walk from the top finds it: nothing comes back below an ignored folder."""
    patterns = ignore_files.read(text)
    names = path.split("/")
    for depth in range(1, len(names) + 1):
        here = names[:depth]
        is_folder = (folder / "/".join(here)).is_dir()
        if ignore_files.verdict(patterns, here, is_folder=is_folder):
            return True
    return False


@example(["[!a]"])
@example(["?", "!??"])
@given(st.lists(st.one_of(LINES, ODD), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_files_are_ignored_as_by_git(tree: Path, lines: list[str]) -> None:
    """Compared with git itself, over every path of a tree."""
    text = "\n".join(lines) + "\n"
    (tree / ".gitignore").write_text(text, newline="")
    paths = sorted(str(p.relative_to(tree)) for p in tree.rglob("*") if ".git" not in p.parts)
    told = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(paths).encode(),
        cwd=tree,
        capture_output=True,
    )
    by_git = {path.decode() for path in told.stdout.split(b"\0") if path}
    assert {path for path in paths if ignored(text, path, tree)} == by_git, lines


def test_a_hostile_pattern_takes_no_time() -> None:
    """Stars do not multiply."""
    patterns = ignore_files.read("*a" * 40 + "b\n" + "/".join(["**"] * 50 + ["x"]) + "\n")
    began = time.process_time()
    assert ignore_files.verdict(patterns, ["a" * 250], is_folder=False) is None
    assert time.process_time() - began < 2
