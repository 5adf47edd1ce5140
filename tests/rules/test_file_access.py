"""Paths mean one place each or are refused, and what is denied stays denied however it is spelt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.authority.path_scopes import PathTarget, is_covered
from holdfast.rules.files import Denials, LocatedPath, Root, locate, told
from holdfast.vocabulary.errors import HoldfastError, NotFound, Refused, UsageError

PROJECT = Root("project", "/home/me/shop", "/home/me/shop", True)
DOCS = Root("docs", "/srv/docs", "/var/link-to-docs")
ROOTS = [PROJECT, DOCS]
DENIALS = Denials(
    ["private/**", "*.sql", "!.npmrc"],
    [("/home/me/shop/holdfast.yaml", "configuration"), ("/home/me/shop/state", "state")],
)


@pytest.mark.parametrize(
    ("path", "root", "parts"),
    [
        ("a/b.txt", "project", ("a", "b.txt")),
        ("./a//b.txt", "project", ("a", "b.txt")),
        ("", "project", ()),
        (".", "project", ()),
        ("docs:x.md", "docs", ("x.md",)),
        ("docs:/x.md", "docs", ("x.md",)),
        ("other:x.md", "project", ("other:x.md",)),
        ("/home/me/shop/a", "project", ("a",)),
        ("/srv/docs", "docs", ()),
        ("/var/link-to-docs/x", "docs", ("x",)),
        ("uri:a%FF/b", "project", ("a\udcff", "b")),
        ("a\nb", "project", ("a\nb",)),
    ],
)
def test_a_path_means_one_place(path: str, root: str, parts: tuple[str, ...]) -> None:
    """Relative to the first root, by a root's name, or absolute below one."""
    located = locate(ROOTS, path)
    assert (located.root.name, located.parts) == (root, parts)


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../x", "a/../b", "a/..", "docs:../x", "/home/me/shop/../x", "uri:%2e%2e/x"),
        *("/etc/passwd", "/home/me/shopping/x", "/home/me", "/", "//etc/passwd", "uri:/etc/passwd"),
    ],
)
def test_nothing_outside_is_meant(path: str) -> None:
    """Climbing and other folders are refused, whatever the spelling."""
    with pytest.raises(Refused):
        locate(ROOTS, path)


def test_what_is_no_path_is_said_to_be_none() -> None:
    """NUL, endless names, unknown roots."""
    for path in ("a\0b", "x" * 5000):
        with pytest.raises(UsageError):
            locate(ROOTS, path)
    with pytest.raises(NotFound):
        locate(ROOTS, "x", "nowhere")
    with pytest.raises(Refused):
        locate(ROOTS, "/etc/passwd", "docs")


@given(
    st.sampled_from(ROOTS),
    st.lists(st.text(min_size=1, max_size=8).filter(lambda t: "/" not in t and "\0" not in t)),
)
def test_what_is_told_can_be_given_back(root: Root, names: list[str]) -> None:
    """A path in an answer means the same place in a request."""
    parts = tuple(name for name in names if name not in (".", ".."))
    located = LocatedPath(root, parts)
    text = told(ROOTS, located)
    text.encode()
    assert locate(ROOTS, text) == located


@given(st.text(max_size=40))
def test_no_text_leads_out(path: str) -> None:
    """Whatever is asked: a place below a root, or an error."""
    try:
        located = locate(ROOTS, path)
    except HoldfastError:
        return
    assert ".." not in located.parts
    assert "" not in located.parts
    assert f"{located.absolute}/".startswith(f"{located.root.path}/")


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", "sub/.git", ".GIT/hooks/pre-commit", ".git./x", ".g\u200cit/config"),
        *("．git/config", ".git::$INDEX_ALLOCATION/x", ".hg/hgrc", ".svn/entries", ".jj/x"),
        *("holdfast.yaml", "Holdfast.YAML", "state/holdfast.db", "STATE/x"),
        *(
            ".env",
            ".env.local",
            "sub/.ENV",
            "prod.env",
            "keys/server.pem",
            "id_rsa",
            "a/id_ed25519",
        ),
        *(".ssh/config", ".aws/credentials", "admin.token", ".netrc", "x.kdbx"),
        *("private/a/b", "private/a\nb", "dump.sql", "sub/DUMP.SQL"),
    ],
)
def test_what_is_denied_is_denied_however_it_is_spelt(path: str) -> None:
    """Version control, configuration, state, secrets, and what the configuration names."""
    assert DENIALS.reason(locate(ROOTS, path)) is not None


@pytest.mark.parametrize(
    "path",
    [
        *("", "a.py", ".gitignore", ".github/workflows/ci.yml", "git/x", ".env.example"),
        *("id_rsa.pub", ".npmrc", "holdfast.yaml.md", "sub/holdfast.yaml", "stateful/x", "environ"),
    ],
)
def test_what_is_not_denied_is_offered(path: str) -> None:
    """Nothing more is denied than is meant; `!` takes a usual one back."""
    assert DENIALS.reason(locate(ROOTS, path)) is None


@pytest.mark.parametrize(
    ("pattern", "path", "is_in"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", True),
        ("src", "src/a", True),
        ("src/*", "src/a", True),
        ("src/*", "src/a/b", False),
        ("src/**", "srcs/a", False),
        ("src/**", "", False),
        ("**", "anything\nat all", True),
        (".", "x", True),
        ("/home/me/shop/src/**", "src/a", True),
        ("/other/**", "src/a", False),
    ],
)
def test_paths_that_a_token_is_limited_to(pattern: str, path: str, is_in: bool) -> None:
    """A folder's pattern covers the folder and what is below it, and nothing beside it."""
    target = PathTarget(f"/home/me/shop/{path}", path)
    assert is_covered(target, [pattern]) is is_in


def test_a_place_outside_the_project_is_covered_by_absolute_patterns_only() -> None:
    """A relative pattern is about the project's folder."""
    target = PathTarget("/srv/docs/x", None)
    assert not is_covered(target, ["**", "srv/**"])
    assert is_covered(target, ["/srv/**"])
