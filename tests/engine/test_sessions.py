"""A session ends when what ran for it has ended, whatever happens on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.sessions import SessionStore
from holdfast.engine.sessions.sessions import AGAIN_SECONDS, Sessions
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import Desired, State
from tests.engine.stage import FakeClock, FakeRecorder

OWNER = Actor(name="ann", role=Role.OWNER, door=Door.CLI)


class StubbornRoster:
    """Does not stop anything the first time."""

    def __init__(self) -> None:
        spec = ServiceSpec(name="web", argv=("web",), working_dir="/", autostart=False)
        web = SimpleNamespace(name="web", owner=None, desired=Desired.STOPPED, run=None)
        web.state, web.last_run_id = State.RUNNING, None
        web.set_owner = lambda owner: setattr(web, "owner", owner)
        web.declaration = SimpleNamespace(spec=spec)
        self.runners: dict[str, Any] = {"web": web}
        self.asked = 0

    async def stop(self, names: list[str], grace: float | None) -> None:
        self.asked += 1
        if self.asked == 1:
            raise Failed("the keeper is away")
        for name in names:
            self.runners[name].desired = Desired.STOPPED


def test_what_cannot_be_stopped_is_asked_again(tmp_path: Path) -> None:
    """The session is not forgotten while its service runs on."""

    async def story() -> None:
        clock, roster = FakeClock(), StubbornRoster()
        keeper = SimpleNamespace(keep=lambda *_: None, request=lambda *_: None)
        ports: Any = SimpleNamespace(
            clock=clock, recorder=FakeRecorder(), keeper=keeper, call_later=clock.call_later
        )
        store = SessionStore(str(tmp_path))
        new_future = asyncio.get_running_loop().create_future
        sessions = Sessions(ports, store, roster, {}, new_future)  # type: ignore[arg-type]
        session = sessions.open(OWNER, "assistant", None, None).session
        sessions.ownership.claim(["web"], sessions.owner_for(actor_of(session.name)))
        roster.runners["web"].desired = Desired.RUNNING
        with pytest.raises(Failed):
            await sessions.close(session, "it said goodbye")
        assert store.load()
        clock.advance(AGAIN_SECONDS)
        await asyncio.gather(*sessions._work)
        assert roster.asked == 2
        assert not store.load()

    asyncio.run(story())


def actor_of(session: str) -> Actor:
    return Actor(name="assistant", role=Role.AGENT, door=Door.MCP, session=session)
