"""Which host a line means, and the words that ssh gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.remote import Host, host_of, without_host
from holdfast.vocabulary.errors import UsageError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ssh://box", ("box", None, "/~")),
        ("ssh://me@box:2222/srv/my shop", ("me@box", 2222, "/srv/my shop")),
        ("ssh://me@box/~/shop", ("me@box", None, "/~/shop")),
    ],
)
def test_hosts(url: str, expected: tuple[str, int | None, str]) -> None:
    """A login, a port and a folder; the home without one."""
    assert tuple(Host.of(url)) == expected


@pytest.mark.parametrize(
    "url", ["box", "https://box:3001", "ssh://", "ssh://-oProxyCommand=id/x", "ssh://a b/"]
)
def test_what_is_no_host(url: str) -> None:
    """An error that says how to write one; never an option of ssh."""
    with pytest.raises(UsageError):
        Host.of(url)


def test_words_arrive_as_they_were_typed() -> None:
    """The shell of the other side sees each word once, whatever is in it."""
    line = Host.of("ssh://me@box:2222/srv/my shop").line(["exec", "--", "a b"], has_terminal=False)
    assert line[:6] == ["ssh", "-T", "-p", "2222", "me@box", "--"]
    assert line[6].endswith("cd '/srv/my shop' && exec holdfast exec -- 'a b'")
    home = Host.of("ssh://box/~/it's").line(["status"], has_terminal=True)
    assert "-t" in home
    assert "cd ~/'it'\"'\"'s' &&" in home[-1]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--host", "x", "status"], ["status"]),
        (["status", "--host=x", "-a"], ["status", "-a"]),
        (["exec", "--", "curl", "--host", "y"], ["exec", "--", "curl", "--host", "y"]),
    ],
)
def test_the_option_stays_here(words: list[str], kept: list[str]) -> None:
    """`--host` is taken away, but not from the line of another program."""
    assert without_host(words) == kept


def test_the_option_wins(tmp_path: Path) -> None:
    """Over the variable, and the variable over the context in use; `local` is here."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "HOLDFAST_HOST": "ssh://variable"}
    assert host_of("ssh://option", environ) == Host("option", None, "/~")
    assert host_of(None, environ) == Host("variable", None, "/~")
    assert host_of("local", environ) is None
    assert host_of(None, {"XDG_CONFIG_HOME": str(tmp_path)}) is None


def test_contexts_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad names, hosts and counts are refused; a broken file is told with its path."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for words in (["add", "local", "ssh://a"], ["add", "a"], ["use", "b"], ["add", "a", "b"],
                  ["sing"]):  # fmt: skip
        assert main(["context", *words]) == 2
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast/contexts.json").write_text("{")
    capsys.readouterr()
    assert main(["status"]) == 1
    assert "contexts.json cannot be read" in capsys.readouterr().err
