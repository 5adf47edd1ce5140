"""Watching files: the walk, the kernel's word, the library's, and the limits."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.watch import file_watch, inotify
from holdfast.adapters.watch.file_watch import MANY, FileWatch, explained, walk
from holdfast.rules.text.globs import Watched
from holdfast.vocabulary.specs.services import WatchSpec

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
Told = dict[str, set[str]]


def run(
    folder: Path,
    body: Callable[[FileWatch, Told, dict[str, str]], Any],
    *specs: WatchSpec,
) -> tuple[Told, dict[str, str]]:
    """Watch, let the body do something, and answer what was told."""
    told: Told = {}
    failed: dict[str, str] = {}

    async def main() -> None:
        watch = FileWatch(
            asyncio.get_running_loop(),
            never=(str(folder / "state"),),
            on_changes=lambda name, paths: told.setdefault(name, set()).update(paths),
            on_failed=failed.__setitem__,
        )
        try:
            for number, spec in enumerate(specs):
                watch.set(f"s{number}", spec)
            await until(lambda: not watch._is_walking)
            await body(watch, told, failed)
        finally:
            watch.close()

    asyncio.run(asyncio.wait_for(main(), 30))
    return told, failed


async def until(is_true: Callable[[], object]) -> None:
    while not is_true():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def spec_of(folder: Path, *patterns: str, **fields: Any) -> WatchSpec:
    return WatchSpec(paths=tuple(f"{folder}/{pattern}" for pattern in patterns), **fields)


def test_the_walk_leaves_out_what_is_ignored(tmp_path: Path) -> None:
    """Only folders in which something can match are watched."""
    for name in ("src/x/y", "src/node_modules/deep", "src/.git/objects", "other"):
        (tmp_path / name).mkdir(parents=True)
    found = walk([Watched(spec_of(tmp_path, "src/**/*.py"))])
    assert found == {str(tmp_path / name) for name in ("src", "src/x", "src/x/y")}
    flat = walk([Watched(spec_of(tmp_path, "src/*.py"))])
    assert flat == {str(tmp_path / "src")}
    missing = walk([Watched(spec_of(tmp_path, "no/such/*.py"))])
    assert missing == {str(tmp_path)}


@linux
def test_folders_that_come_in_a_heap(tmp_path: Path) -> None:
    """Files in folders that come faster than they can be watched are not lost."""

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        wanted = set()
        for number in range(20):
            folder = tmp_path / f"a{number}" / "b" / "c"
            folder.mkdir(parents=True)
            (folder / "x.py").write_text("x")
            wanted.add(str(folder / "x.py"))
        await until(lambda: wanted <= told.get("s0", set()))

    _, failed = run(tmp_path, body, spec_of(tmp_path, "**/*.py"))
    assert not failed


@linux
def test_services_are_told_of_their_own_files(tmp_path: Path) -> None:
    """Each is told of what it watches; a new watch makes no file look changed."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "old.py").write_text("x")

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        watch.set("late", spec_of(tmp_path, "b"))
        await until(lambda: not watch._is_walking)
        (tmp_path / "a" / "x.py").write_text("x")
        (tmp_path / "b" / "y.py").write_text("x")
        await until(lambda: len(told) == 2)
        watch.set("late", None)
        await until(lambda: not watch._is_walking and watch.folders == 1)

    told, _ = run(tmp_path, body, spec_of(tmp_path, "a/*.py"))
    assert told == {"s0": {f"{tmp_path}/a/x.py"}, "late": {f"{tmp_path}/b/y.py"}}


@linux
def test_a_change_while_its_folder_is_being_added(tmp_path: Path) -> None:
    """A change that the kernel tells before the folder's number is known is not lost."""
    watch = inotify.Inotify()
    call = watch._call

    def slow(function: object, *arguments: object) -> int:
        number = call(function, *arguments)
        (tmp_path / "a.py").write_text("x")
        added.set()
        time.sleep(0.05)
        return number

    added = threading.Event()
    watch._call = slow  # type: ignore[method-assign]
    thread = threading.Thread(target=watch.add, args=(str(tmp_path),))
    thread.start()
    added.wait()
    seen = [(it.folder, it.name) for it in watch.read()]
    thread.join()
    watch.close()
    assert (str(tmp_path), "a.py") in seen


@linux
def test_a_file_that_is_replaced(tmp_path: Path) -> None:
    """Editors write another file and rename it: that is a change of the file."""
    (tmp_path / "conf.yaml").write_text("1")

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        (tmp_path / "conf.yaml.new").write_text("2")
        os.replace(tmp_path / "conf.yaml.new", tmp_path / "conf.yaml")
        await until(lambda: told)

    told, _ = run(tmp_path, body, spec_of(tmp_path, "conf.yaml"))
    assert told == {"s0": {f"{tmp_path}/conf.yaml"}}


@linux
def test_a_folder_that_goes_and_comes_back(tmp_path: Path) -> None:
    """A folder that was moved away, deleted and made anew is watched again."""
    source = tmp_path / "src"
    source.mkdir()

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        os.rename(source, tmp_path / "away")
        await until(lambda: f"{source}" in told.get("s0", set()))
        source.mkdir()
        await until(lambda: not watch._is_walking and str(source) in watch._known[False])
        (source / "x.py").write_text("x")
        await until(lambda: f"{source}/x.py" in told["s0"])
        (tmp_path / "away" / "y.py").write_text("x")

    told, _ = run(tmp_path, body, spec_of(tmp_path, "src/*.py"))
    assert f"{tmp_path}/away/y.py" not in told["s0"]


@linux
def test_a_folder_that_is_deleted_and_made_anew(tmp_path: Path) -> None:
    """A build that replaces its whole output folder is seen, however quick it is."""
    source = tmp_path / "dist"
    source.mkdir()

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        for number in range(5):
            shutil.rmtree(source)
            source.mkdir()
            (source / f"{number}.js").write_text("x")
            await until(lambda number=number: f"{source}/{number}.js" in told.get("s0", set()))  # type: ignore[misc]

    run(tmp_path, body, spec_of(tmp_path, "dist/*.js"))


@linux
def test_more_changes_than_the_kernel_keeps(tmp_path: Path) -> None:
    """After an overflow everybody who watches is told that something changed."""

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        watch._overflown()
        await until(lambda: not watch._is_walking)

    told, _ = run(tmp_path, body, spec_of(tmp_path, "**"), spec_of(tmp_path, "*.py"))
    assert told == {"s0": {MANY}, "s1": {MANY}}


def test_the_library(tmp_path: Path) -> None:
    """Polling finds changed files and new folders, too."""
    (tmp_path / "a").mkdir()

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        (tmp_path / "a" / "new").mkdir()
        await until(lambda: f"{tmp_path}/a/new" in watch._known[True])
        for number in range(100):
            (tmp_path / "a" / "new" / "x.py").write_text(str(number))
            await asyncio.sleep(0.2)
            if told:
                return

    told, _ = run(tmp_path, body, spec_of(tmp_path, "a/**", polling=True))
    assert told == {"s0": {f"{tmp_path}/a/new/x.py"}}


@pytest.mark.parametrize("is_polling", [pytest.param(False, marks=linux), True])
def test_closed_while_folders_are_walked(tmp_path: Path, is_polling: bool) -> None:
    """Whenever it is closed, no thread fails, and nothing is watched afterwards."""
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    spec = spec_of(tmp_path, "**", polling=is_polling)
    failed: list[object] = []
    before = threading.excepthook
    threading.excepthook = failed.append

    async def story(delay: float) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, facts: failed.append(facts))
        watch = FileWatch(
            loop, never=(), on_changes=lambda *_: None, on_failed=lambda *why: failed.append(why)
        )
        watch.set("web", spec)
        await asyncio.sleep(delay)
        watch.close()
        watch._thread.shutdown(wait=True)
        for _ in range(3):
            await asyncio.sleep(0)

    try:
        for step in range(15):
            asyncio.run(story(step / 2000))
    finally:
        threading.excepthook = before
    assert failed == []
    deadline = time.monotonic() + 30
    while any(thread.name == "watchfiles" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "somebody watches on"
        time.sleep(0.01)


def test_real_paths_are_told_as_they_were_written(tmp_path: Path) -> None:
    """Where a system tells real paths, patterns that lead through links match all the same."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    seen: list[file_watch.Changes] = []

    class Told:
        def watch(self, *_: object) -> object:
            return {(1, f"{tmp_path}/real/a.py")} if not seen else "stop"

        def close(self) -> None:
            pass

    class Loop:
        def call_soon_threadsafe(self, call: Any, changes: file_watch.Changes) -> None:
            call(changes)

    backend = file_watch.LibraryBackend(Loop(), seen.append, False)  # type: ignore[arg-type]
    backend._wait(Told(), threading.Event(), {f"{tmp_path}/real": f"{tmp_path}/link"})
    assert seen[0].files == [f"{tmp_path}/link/a.py"]


@linux
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_the_limit_of_the_kernel(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the kernel's limit the message names it, what it is, and three ways out."""

    def refuse(self: object, folders: set[str]) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_watch.KernelBackend, "watch", refuse)

    async def body(watch: FileWatch, told: Told, failed: dict[str, str]) -> None:
        await until(lambda: failed)

    _, failed = run(tmp_path, body, spec_of(tmp_path, "**"))
    assert "sysctl fs.inotify.max_user_" in failed["s0"]
    assert "polling: true" in failed["s0"]


def test_other_failures_are_told_as_they_are() -> None:
    """What is no limit is told in the system's words."""
    assert "Input/output error" in explained(OSError(errno.EIO, "Input/output error"), 3)
