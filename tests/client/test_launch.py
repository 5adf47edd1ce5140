"""What a keeper is started with."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.client import launch
from holdfast.client.launch import KeeperProcess, keeper_environment, make_private
from holdfast.keeper.supervisor_launcher import minimal_environment
from holdfast.system.places import Places
from holdfast.vocabulary.errors import UsageError

KEPT = {
    "PATH": "/bin",
    "XDG_STATE_HOME": "/s",
    "LD_LIBRARY_PATH": "/opt/python/lib",
    "DYLD_LIBRARY_PATH": "/opt/python/lib",
}
OTHERS = {
    "LC_ALL": "de_DE.ISO-8859-1", "LANG": "ru_RU.KOI8-R", "API_KEY": "secret", "PYTHONPATH": "/p",
}  # fmt: skip


def test_keeper_and_supervisor_get_only_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that finds its library through a variable has it in both; names of files are UTF-8
    for them, whatever the locale; secrets are in none."""
    assert keeper_environment({**KEPT, **OTHERS}) == KEPT
    monkeypatch.setattr("os.environ", {**KEPT, **OTHERS})
    assert minimal_environment() == KEPT


@pytest.mark.parametrize("kind", ["file", "shared"])
def test_what_is_not_for_holdfast_alone_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    """A file, or a folder like /tmp, is refused before its mode is changed."""
    place = tmp_path / "place"
    place.touch() if kind == "file" else place.mkdir()
    place.chmod(0o644 if kind == "file" else 0o1777)
    before = os.stat(place).st_mode
    with pytest.raises(UsageError, match="no folder" if kind == "file" else "shared"):
        make_private(str(place))
    assert os.stat(place).st_mode == before


def test_an_interrupt_right_after_the_start_waits_until_the_keeper_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier it could not be ended again, and would stay for ever."""
    is_ready = threading.Event()

    def interrupted(places: Places, environ: Mapping[str, str], ready_fd: int) -> KeeperProcess:
        fd = os.dup(ready_fd)

        def say() -> None:
            is_ready.set()
            os.write(fd, b'{"ready": true}\n')
            os.close(fd)

        threading.Timer(0.1, say).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "_spawn_keeper", interrupted)
    places = Places(str(tmp_path), str(tmp_path / "state"), str(tmp_path / "run"), None)
    with pytest.raises(KeyboardInterrupt):
        launch.start_keeper(places, {"XDG_STATE_HOME": str(tmp_path)})
    assert is_ready.is_set()


def test_a_folder_that_is_there_is_made_private(tmp_path: Path) -> None:
    """As one that it makes itself is."""
    (tmp_path / "mine").mkdir(0o755)
    for name in ("mine", "a/b"):
        make_private(str(tmp_path / name))
        assert os.stat(tmp_path / name).st_mode & 0o777 == 0o700
