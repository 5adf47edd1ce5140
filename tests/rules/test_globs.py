"""Which files a service watches, and which never count."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.rules.text.globs import Watched, expression
from holdfast.vocabulary.specs.services import WatchSpec

names = st.text("ab.", min_size=1, max_size=3).filter(lambda it: it.strip("."))
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/p/" + "/".join(parts))


def watched(*paths: str, ignore: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> Watched:
    return Watched(WatchSpec(paths=paths, ignore=ignore), never)


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("/p/src/**/*.py", "/p/src/a.py", True),
        ("/p/src/**/*.py", "/p/src/x/y/a.py", True),
        ("/p/src/**/*.py", "/p/src/a.js", False),
        ("/p/src/**/*.py", "/p/other/a.py", False),
        ("/p/*.py", "/p/a.py", True),
        ("/p/*.py", "/p/x/a.py", False),
        ("/p/**", "/p/x/y/z", True),
        ("/p/src", "/p/src/x/a", True),
        ("/p/src", "/p/srcs/a", False),
        ("/p/a.yaml", "/p/a.yaml", True),
        ("/p/?.py", "/p/a.py", True),
        ("/p/?.py", "/p/ab.py", False),
        ("/p/[ab].py", "/p/b.py", True),
        ("/p/[!ab].py", "/p/b.py", False),
        ("/p/*/conf.[jy]*", "/p/x/conf.yaml", True),
        ("/p/a+b/*.py", "/p/a+b/x.py", True),
        ("/p/**/*.py", "/p/node_modules/a.py", False),
        ("/p/**/*.py", "/p/x/.git/a.py", False),
        ("/p/**", "/p/.a.py.swp", False),
        ("/p/**", "/p/a.py~", False),
        ("/p/**", "/p/.#a.py", False),
        ("/p/**", "/p/4913", False),
        ("/p/node_modules/lib/*.js", "/p/node_modules/lib/a.js", True),
        ("/p/.git/HEAD", "/p/.git/HEAD", True),
    ],
)
def test_what_counts(pattern: str, path: str, is_meant: bool) -> None:
    """Wildcards stay within a name, ** does not; noise counts only where it is named."""
    assert watched(pattern).matches(path) is is_meant


def test_ignored() -> None:
    """Names are ignored wherever they stand, paths where they are; so is Holdfast's own state."""
    found = watched("/p/**", ignore=("*.log", "/p/gen", "/p/x/*.tmp"), never=("/p/state",))
    assert found.matches("/p/x/a.py")
    for path in ("/p/x/a.log", "/p/gen/a.py", "/p/x/a.tmp", "/p/state/holdfast.db", "/p/state"):
        assert not found.matches(path), path
    assert not found.enters("/p/gen")
    assert not found.enters("/p/state/logs")
    assert not found.enters("/p/node_modules")
    assert found.enters("/p/x")


def test_only_folders_that_matter_are_entered() -> None:
    """A pattern without ** needs no folder deeper than itself."""
    flat = watched("/p/*.py")
    assert flat.enters("/p")
    assert not flat.enters("/p/x")
    assert not flat.enters("/other")
    deeper = watched("/p/*/*.py")
    assert deeper.enters("/p/x")
    assert not deeper.enters("/p/x/y")


@given(paths)
def test_a_path_is_a_pattern_of_itself(path: str) -> None:
    """A pattern without wildcards matches just that path and what is below it."""
    found = watched(path)
    assert found.matches(path)
    assert not found.matches(path + "x")


@given(paths)
def test_what_matches_is_in_a_folder_that_is_entered(path: str) -> None:
    """No file counts that nobody would see."""
    for pattern in ("/p/**", "/p/**/*", "/p/*", "/p/*/*", "/p/a/**", "/p"):
        found = watched(pattern)
        if found.matches(path) and path != "/p":
            folder = path.rpartition("/")[0]
            assert found.enters(folder), (pattern, path)


@given(st.text("ab*?[]!/.\\-^&~|", min_size=1, max_size=12))
@example("[?--]")
@example("[a&&b]")
def test_any_text_is_a_pattern(text: str) -> None:
    """No pattern breaks, whatever is written."""
    watched("/" + text).matches("/a/b")
    assert expression("/" + text)
