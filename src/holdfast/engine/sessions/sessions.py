"""Sessions of assistants and agents: opened, held, renewed, and ended after a grace.

A session lives while a connection holds it, and `grace` seconds beyond its last sign of life. Time
counts only while there is a supervisor: a new one gives every session its whole grace, so that an
outage of ours ends no work. At its end, its services meet their declared fate.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.adapters import sessions
from holdfast.adapters.own_log import logger
from holdfast.adapters.sessions import SessionStore, StoredSession
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.runner import Runner
from holdfast.engine.sessions.ownership import Ownership, is_wanted
from holdfast.rules import sessions as rules
from holdfast.system.token_bucket import TokenBucket
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.errors import (
    Failed,
    HoldfastError,
    Refused,
    TooManyRequests,
    UsageError,
)
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.sessions import ClosedSession, Fate, Owner
from holdfast.vocabulary.specs.policies import RateLimit

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import LeaseRequest

MOST_SESSIONS = 200
MOST_OF_ONE = 50
"""The most sessions of one opener, so that it cannot use up everybody's."""
OPENINGS = RateLimit(requests_per_second=0.5, burst=100)
"""The rate for one opener, because each opening and closing is an event and an audit record."""
_MOST_OPENERS = 1000
LONGEST_CLIENT = 100
LEASE_MARGIN_SECONDS = 15.0
"""So much later the keeper ends a session's runs, if this process is stuck."""
AGAIN_SECONDS = 5.0
"""A failed stop is tried again after this time."""
_log = logger("sessions")


class Session:
    """One session."""

    __slots__ = ("closed", "holds", "last_sign", "stored", "timer")

    def __init__(self, stored: StoredSession, now: float, closed: asyncio.Future[str]) -> None:
        self.stored = stored
        self.last_sign = now
        self.holds: set[str] = set()
        self.timer: PendingCall | None = None
        self.closed = closed
        """Done with the reason when it is over."""

    @property
    def name(self) -> str:
        return session_name(self.stored.id)


class NewSession(NamedTuple):
    """A session with the text of its token, which is shown only once."""

    session: Session
    text: str


class Sessions:
    """All sessions of one Holdfast."""

    def __init__(
        self,
        environment: RunnerEnvironment,
        store: SessionStore,
        roster: Roster,
        runs: Mapping[str, Mapping[str, Any]],
        new_future: Callable[[], asyncio.Future[Any]],
    ) -> None:
        self.ownership = Ownership(environment.keeper, lambda: roster.runners)
        self._environment = environment
        self._store = store
        self._roster = roster
        self._runs = runs
        self._new_future = new_future
        self._all: dict[str, Session] = {}
        self._openings: dict[tuple[str | None, str | None], TokenBucket] = {}
        self._work: set[asyncio.Task[Any]] = set()
        self.ownership.on_owner = self._lend
        self.on_closed: Callable[[str], None] = lambda _: None
        """Called with the name of a session that is over."""
        self.on_ended: Callable[[Session, str, ClosedSession], None] = lambda *_: None
        """Called when a session ends that nobody closed by `close_session`: with the reason, and
        what becomes of its services."""

    # Opening and closing

    def restore(self, kept: Mapping[str, str]) -> None:
        """Continue with the sessions of an earlier supervisor; each has its whole grace again."""
        now = self._environment.clock.monotonic()
        for stored in self._store.load():
            self._all[stored.id] = session = Session(stored, now, self._new_future())
            if stored.fate_now is not None:
                self._finish_later(session, "it was being closed")
            else:
                self._watch(session)
        self.ownership.restore(kept)
        names = {session.name for session in self._all.values()}
        for runner in self._roster.runners.values():
            owner = runner.owner
            if owner is not None and owner in rules.unknown_owners([owner], names):
                self.ownership.set(runner, msgspec.structs.replace(owner, ended=True))
            self._lend(runner)  # also without an owner: it may have an old lease

    def open(self, actor: Actor, client: str, fate: Fate | None, grace: float | None) -> NewSession:
        client = client.strip()
        if not client or len(client) > LONGEST_CLIENT or not client.isprintable():
            raise UsageError("a session needs a client", f"at most {LONGEST_CLIENT} letters")
        if actor.session is not None:
            raise Refused("a session opens no other", "use the token that opened this one")
        if actor.role is not Role.OWNER and actor.token is None and actor.run_id is None:
            raise Refused("a session needs a token to begin with", "show one")
        if len(self._all) >= MOST_SESSIONS:
            raise Refused(f"there are {MOST_SESSIONS} sessions already", "close some")
        siblings = [one for one in self._all.values() if _opener(one.stored) == _opener_of(actor)]
        if len(siblings) >= MOST_OF_ONE:
            raise Refused(f"{actor.name} has {MOST_OF_ONE} sessions already", "close some")
        self._pace(actor)
        identity = new_id()
        text, digest = sessions.new_secret(identity)
        stored = StoredSession(
            id=identity,
            digest=digest,
            client=client,
            opened_by=actor.name,
            opened_at=self._environment.clock.time(),
            fate=fate or rules.DEFAULT_FATE,
            grace=rules.grace_of(grace),
            token=actor.token,
            run_id=actor.run_id,
        )
        session = Session(stored, self._environment.clock.monotonic(), self._new_future())
        self._store.save([*(one.stored for one in self._all.values()), stored])
        self._all[identity] = session
        self._watch(session)
        self._environment.recorder.event(
            EventKind.SESSION_OPENED, session=session.name, client=client, by=actor.name
        )
        return NewSession(session, text)

    def _pace(self, actor: Actor) -> None:
        """Raise TooManyRequests for an opener that opens sessions too fast."""
        opener, now = _opener_of(actor), self._environment.clock.monotonic()
        rate, burst = OPENINGS.requests_per_second, OPENINGS.burst
        if opener not in self._openings:
            if len(self._openings) >= _MOST_OPENERS:
                del self._openings[next(iter(self._openings))]
            self._openings[opener] = TokenBucket(burst, now)
        seconds = self._openings[opener].take(rate, burst, now)
        if seconds:
            raise TooManyRequests(
                f"{actor.name} opens too many sessions",
                f"use one session for longer, or try again in {seconds:.0f} s",
                {"retry_after": round(seconds, 1)},
            )

    async def close(
        self, session: Session, why: str, fate: Fate | None = None, *, is_asked: bool = False
    ) -> ClosedSession:
        """End it; its token is refused from now on. Returns when its services have stopped.
        `is_asked`: somebody asked for just this."""
        if session.stored.fate_now is None:
            session.stored = msgspec.structs.replace(
                session.stored, fate_now=fate or session.stored.fate
            )
            try:
                self._save()
            except Failed as error:
                _log.error("%s", error)
        return await self._finish(session, why, is_asked=is_asked)

    def close_those_of(self, tokens: Container[str | None]) -> list[str]:
        """End the sessions that were opened with tokens that are not valid any more."""
        ending = [one for one in self.present() if one.stored.token in tokens]
        for session in ending:
            self._finish_later(session, "the token that opened it is not valid any more")
        return [session.name for session in ending]

    async def _finish(self, session: Session, why: str, *, is_asked: bool) -> ClosedSession:
        if session.timer is not None:
            session.timer.cancel()
        asked: Fate = session.stored.fate_now or session.stored.fate
        result = self._part(session, asked)
        if not session.closed.done():
            session.closed.set_result(why)
            self.on_closed(session.name)
            if not is_asked:
                self.on_ended(session, why, result)
            self._environment.recorder.event(
                EventKind.SESSION_CLOSED,
                session=session.name,
                client=session.stored.client,
                reason=why,
                stopped=result.stopped,
                kept=result.kept,
                handed_over=result.handed_over,
            )
        if result.stopped:
            by = f"the session of {session.stored.client} ended: {why}"
            for name in result.stopped:
                run_id = self._roster.runners[name].last_run_id
                self._environment.recorder.event(
                    EventKind.REQUESTED, name, run_id, request="stop", because=by
                )
            try:
                await self._roster.stop(result.stopped, grace=None)
            except HoldfastError:
                # It stays until its services have ended; the next supervisor continues with it.
                self._environment.call_later(
                    AGAIN_SECONDS, lambda: self._finish_later(session, why)
                )
                raise
        if self._all.pop(session.stored.id, None) is not None:
            self._save()
        return result

    def _part(self, session: Session, asked: Fate) -> ClosedSession:
        """Decide the fate of each service that ran for it."""
        clients = {one.name: one.stored.client for one in self.present() if one is not session}
        stopped: list[str] = []
        kept: list[str] = []
        handed_over: list[str] = []
        shared: list[str] = []
        for runner, former in self.ownership.of(session.name):
            owner, is_last = rules.left(former, session.name, clients)
            if not is_last:
                self.ownership.set(runner, owner)
                shared.append(runner.name)
                continue
            fate = rules.fate_of(runner.declaration.spec.on_session_end, asked)
            if fate == "stop" and is_wanted(runner):
                stopped.append(runner.name)
                continue
            is_handed_over = fate == "hand_over"
            ended = msgspec.structs.replace(former, ended=True)
            self.ownership.set(runner, None if is_handed_over else ended)
            if is_wanted(runner):
                (handed_over if is_handed_over else kept).append(runner.name)
        return ClosedSession(
            session=session.name,
            stopped=stopped,
            kept=kept,
            handed_over=handed_over,
            shared=shared,
        )

    # Lookup

    def present(self) -> list[Session]:
        """Return the sessions that are not over."""
        return [one for one in self._all.values() if one.stored.fate_now is None]

    def get(self, name: str) -> Session:
        for session in self.present():
            if name in (session.name, session.stored.id):
                return session
        raise UsageError(f'no session "{name}"', "`holdfast sessions` lists them")

    def find(self, text: str) -> Session | None:
        """Return the session of this token. Using the token is a sign of life."""
        identity = sessions.id_in(text)
        session = self._all.get(identity) if identity is not None else None
        known = session.stored if session is not None else None
        if not sessions.is_right(text, known) or session is None:
            return None
        if session.stored.fate_now is not None:
            return None
        run_id = session.stored.run_id
        if run_id is not None and run_id not in self._runs:
            return None
        session.last_sign = self._environment.clock.monotonic()
        return session

    def owned(self, session: Session) -> list[str]:
        return [runner.name for runner, _ in self.ownership.of(session.name)]

    def expires_in(self, session: Session) -> float | None:
        return rules.expires_in(
            session.stored.grace, self._idle(session), is_held=bool(session.holds)
        )

    def owner_for(self, actor: Actor) -> Owner | None:
        """Return the owner of what this actor starts; None: the user."""
        if actor.session is None:
            return None
        session = self.get(actor.session)
        return Owner(
            session=session.name,
            client=session.stored.client,
            call=actor.call,
            since=self._environment.clock.time(),
        )

    # Signs of life

    def note_call(self, session: Session, call: str) -> None:
        """Announce the first call of a session: its program is connected and works."""
        if session.stored.first_call is not None:
            return
        session.stored = msgspec.structs.replace(session.stored, first_call=call)
        try:
            self._save()
        except Failed as error:
            _log.error("%s", error)
        self._environment.recorder.event(
            EventKind.SESSION_CALLED,
            session=session.name,
            client=session.stored.client,
            call=call,
        )

    def renew(self, session: Session) -> None:
        session.last_sign = self._environment.clock.monotonic()
        self._watch(session)

    def hold(self, session: Session) -> str:
        """Hold it until `let_go`; return the name of this hold."""
        hold = os.urandom(8).hex()
        session.holds.add(hold)
        self._watch(session)
        return hold

    def let_go(self, session: Session, hold: str) -> None:
        session.holds.discard(hold)
        self.renew(session)

    def is_left_by(self, session: Session, hold: str) -> bool:
        """Return whether nothing speaks for keeping it open but this hold."""
        return session.holds == {hold} and not self.owned(session)

    async def over(self, session: Session) -> str:
        """Wait for its end; return the reason."""
        return await asyncio.shield(session.closed)

    def _idle(self, session: Session) -> float:
        return self._environment.clock.monotonic() - session.last_sign

    def _watch(self, session: Session) -> None:
        """Look again when its grace would be over; the keeper looks a little later."""
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None
        if session.stored.fate_now is not None:
            return
        remaining = self.expires_in(session)
        if remaining is not None:
            session.timer = self._environment.call_later(
                remaining, lambda: self._check_idle(session)
            )
        for runner, _ in self.ownership.of(session.name):
            self._lend(runner)

    def _check_idle(self, session: Session) -> None:
        session.timer = None
        is_held = bool(session.holds)
        if rules.is_due(session.stored.grace, self._idle(session), is_held=is_held):
            self._finish_later(session, "there was no sign of life for its grace")
        else:
            self._watch(session)

    def _finish_later(self, session: Session, why: str) -> None:
        work = asyncio.ensure_future(self.close(session, why))
        self._work.add(work)
        work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Task[Any]) -> None:
        self._work.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.error("a session could not be closed as it should be", exc_info=error)

    def _lend(self, runner: Runner) -> None:
        """Set the keeper's lease of a run: a run of a session without a holder has one, others have
        none.
        """
        owner: Owner | None = runner.owner
        if owner is None or owner.ended or owner.with_others:
            self._lease(runner, None)
            return
        session = next((one for one in self.present() if one.name == owner.session), None)
        if session is None:
            return
        fate = rules.fate_of(runner.declaration.spec.on_session_end, session.stored.fate)
        remaining = self.expires_in(session) if fate == "stop" else None
        self._lease(runner, None if remaining is None else remaining + LEASE_MARGIN_SECONDS)

    def _lease(self, runner: Runner, seconds: float | None) -> None:
        run = runner.run
        if run is None or not run.is_up:
            return
        known = (self._runs.get(run.run_id) or {}).get("lease") or {}
        if seconds is None and known.get("seconds") is None:
            return
        message: LeaseRequest = {
            "do": "lease",
            "run_id": run.run_id,
            "seconds": seconds,
            "kind": "session",
        }
        self._environment.keeper.request(message, lambda reply: None)

    def _save(self) -> None:
        self._store.save([one.stored for one in self._all.values()])


def new_id() -> str:
    """Return the digits of a random UUID; importing `uuid` would slow down every start."""
    digits = os.urandom(16).hex()
    return f"{digits[:12]}4{digits[13:16]}{'89ab'[int(digits[16], 16) % 4]}{digits[17:]}"


def session_name(digits: str) -> str:
    """Return the name of a session with these digits of a UUID."""
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "session-" + "-".join(parts)


def _opener(stored: StoredSession) -> tuple[str | None, str | None]:
    return stored.token, stored.run_id


def _opener_of(actor: Actor) -> tuple[str | None, str | None]:
    return actor.token, actor.run_id
