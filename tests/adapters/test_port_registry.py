"""The list of leases that all Holdfasts of a user share: locked, broken, on a full disk."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.ports import registry as port_registry
from holdfast.adapters.ports.registry import PortRegistry
from holdfast.engine.ports import in_thread_of
from holdfast.keeper import lock
from holdfast.vocabulary.errors import Failed

SPAN = (23900, 23949)


def registry(folder: Path, name: str = "one") -> PortRegistry:
    state = folder / name
    state.mkdir(exist_ok=True)
    return PortRegistry(str(folder), str(state), f"/project/{name}")


@contextmanager
def locked(path: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


def test_a_stopped_holdfast_keeps_others_waiting_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say so, and only the first of them waits."""
    monkeypatch.setattr(port_registry, "LOCK_SECONDS", 0.4)
    own = registry(tmp_path)
    with locked(tmp_path / "ports.lock"):
        with pytest.raises(TimeoutError, match="is it stopped"):
            own.lease("web", {"port": 0}, SPAN)
        began = time.monotonic()
        for _ in range(50):  # each of many services
            with pytest.raises(TimeoutError):
                own.lease("web", {"port": 0}, SPAN)
        assert time.monotonic() - began < 0.4 * 50
    assert own.lease("web", {"port": 0}, SPAN)


def test_what_waits_for_the_list_keeps_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many wait; the loop's own threads are free, and the order is that of the asking."""
    monkeypatch.setattr(port_registry, "LOCK_SECONDS", 120.0)
    done: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        in_thread = in_thread_of(loop)
        own = registry(tmp_path)
        ended = loop.create_future()
        with locked(tmp_path / "ports.lock"):
            for _ in range(40):
                in_thread(lambda: own.rest("web"), lambda found: None)
            in_thread(lambda: own.forget("web"), lambda found: done.append("forget"))
            in_thread(lambda: own.lease("web", {"port": 0}, SPAN), ended.set_result)
            await asyncio.wait_for(loop.run_in_executor(None, done.append, "free"), 30)
        found = await asyncio.wait_for(ended, 30)
        assert [one.port for one in own.all()] == [found["port"]]

    asyncio.run(story())
    assert done == ["free", "forget"]


def test_nothing_is_done_for_a_loop_that_is_closed(tmp_path: Path) -> None:
    """A supervisor that leaves does not wait for a list that somebody holds."""
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    async def story() -> None:
        in_thread = in_thread_of(asyncio.get_running_loop())

        def first() -> None:
            begun.set()
            may_end.wait(30)

        in_thread(first, lambda found: None)
        in_thread(lambda: done.append("second"), lambda found: None)
        begun.wait(30)

    asyncio.run(story())
    may_end.set()
    time.sleep(0.05)
    assert done == []


def test_a_full_disk_keeps_no_service_from_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is not on the list, and the service runs."""
    own = registry(tmp_path)
    before = own.lease("web", {"port": 0}, SPAN)

    def full(path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("holdfast.adapters.ports.registry.replace_file", full)
    assert own.lease("web", {"port": 0}, SPAN) == before
    assert own.lease("api", {"port": 0}, SPAN) != before


def test_a_list_that_cannot_be_read_for_a_moment_is_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken one is: what is leased is checked by binding, too."""
    one, two = registry(tmp_path), registry(tmp_path, "two")
    kept = one.lease("web", {"port": 0}, SPAN)

    def failing(*arguments: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(port_registry, "read_plain", failing)
    with pytest.raises(OSError, match="Too many"):
        two.lease("web", {"port": 0}, SPAN)
    with pytest.raises(Failed):
        two.all()
    monkeypatch.undo()
    assert two.lease("web", {"port": 0}, SPAN) != kept
    assert len(one.all()) == 2
    (tmp_path / "ports.json").write_text("[{")
    assert two.lease("web", {"port": 0}, SPAN)


def test_who_asks_whether_a_keeper_is_there_keeps_none_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To ask shares the lock for a moment; a keeper holds it for good."""
    with locked(tmp_path / "lock", fcntl.LOCK_SH), pytest.raises(lock.AlreadyLocked):
        lock.take(str(tmp_path))
    with ExitStack() as asking:
        asking.enter_context(locked(tmp_path / "lock", fcntl.LOCK_SH))
        # The moment is over when the keeper looks again.
        monkeypatch.setattr(time, "sleep", lambda _: asking.close())
        os.close(lock.take(str(tmp_path)))
