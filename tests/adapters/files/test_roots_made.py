"""Roots are looked up elsewhere than on the loop: a disk may take long to say what a path is."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from holdfast.adapters.files.files import Files
from holdfast.vocabulary.files import ReadFile
from holdfast.vocabulary.specs.files import FilesSpec, RootSpec


class Changing:
    """Files whose settings change, and who looked up links in which thread."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.never = folder, [(str(folder / "key"), "it is a private key")]
        self.asked_by: list[threading.Thread] = []
        real = os.path.realpath
        self.use("one")
        self.files = Files(str(folder / "state"), str(folder), lambda: self.spec, self.denied)

        def realpath(path: str) -> str:
            self.asked_by.append(threading.current_thread())
            return real(path)

        monkeypatch.setattr(os.path, "realpath", realpath)

    def denied(self) -> list[tuple[str, str]]:
        return self.never

    def use(self, name: str) -> None:
        (self.folder / name).mkdir()
        (self.folder / name / "x").write_text(name)
        self.spec = FilesSpec(roots=(RootSpec(name=name, path=str(self.folder / name)),))

    @property
    def is_loop_free(self) -> bool:
        return threading.main_thread() not in self.asked_by


def test_the_loop_looks_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads or needs the roots on the loop is served by a thread after a change."""
    changing = Changing(tmp_path, monkeypatch)

    async def story() -> None:
        assert changing.files.read_at_once(ReadFile(path="x")) is None
        assert (await changing.files.made_roots()).roots[0].name == "one"
        changing.use("two")
        assert changing.files.read_at_once(ReadFile(path="x")) is None
        assert (await changing.files.made_roots()).roots[0].name == "two"
        changing.never = []
        assert (await changing.files.made_roots()).roots[0].name == "two"

    asyncio.run(story())
    changing.files.close()
    assert len(changing.asked_by) == 7
    assert changing.is_loop_free


def test_roots_of_settings_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made before the settings are in force, used from then on; those of now stay until then."""
    changing = Changing(tmp_path, monkeypatch)
    asyncio.run(changing.files.made_roots())
    now = changing.spec
    changing.use("two")
    coming, changing.spec = changing.spec, now
    thread = threading.Thread(target=changing.files.foresee, args=(coming, changing.never))
    thread.start()
    thread.join()
    assert changing.files.roots.roots[0].name == "one"
    changing.spec = coming
    assert changing.files.roots.roots[0].name == "two"
    changing.files.close()
    assert changing.is_loop_free
