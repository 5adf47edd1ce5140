"""Commands with a key: done once, and answered as often as they are asked again under that key.

The keeper's memory knows that a command was begun before it is done, and knows its answer before
the answer is sent, so both outlive this process. If a supervisor dies in between, nobody can know
what was done. The next supervisor says so, unless the command is `repeatable`: then it is done
again. It is not done again if the opposite was asked since (a `stop` after the `start`): the later
request wins. What is remembered is bounded in number, size and age.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_link import log_refusal
from holdfast.adapters.own_log import logger
from holdfast.app.authority.approvals import PendingAnswer
from holdfast.app.registry import Answer
from holdfast.engine.runner.environment import Clock
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.errors import (
    NOTHING_DONE,
    HoldfastError,
    OutcomeUnknown,
    Refused,
    UsageError,
)
from holdfast.vocabulary.readers import reader

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import KeepRequest, Reply

MOST_RECENT = 64
"""How many of the newest requests that start or stop services are remembered."""
STARTING = frozenset({"up", "start", "run", "restart", "rolling_restart", "resume"})
STOPPING = frozenset({"stop", "pause", "remove"})
OPPOSITES: dict[str, frozenset[str]] = {
    "stop": STARTING,
    "pause": STARTING,
    "up": STOPPING,
    "start": STOPPING,
    "resume": STOPPING,
    "scale": frozenset({"scale"}),
}
"""A command is not done again if one of these was asked about the same services since."""
MOST = 256
MOST_OF_ONE = 64
"""How many keyed commands of one actor may be under way at the same time."""
MOST_BYTES = 1024 * 1024
LONGEST_ANSWER = 128 * 1024
KEPT_SECONDS = 600.0
LONGEST_KEY = 200
_log = logger("repeats")


class Link(Protocol):
    """The part of the keeper link that is needed here; tests have another."""

    def keep(self, key: str, value: str | None) -> None: ...

    def request(self, message: KeepRequest, then: Callable[[Reply], None]) -> None: ...

    def flush(self) -> None: ...


class KeyedCommand(msgspec.Struct, kw_only=True):
    """A command that was given under a key."""

    command: str
    digest: str
    at: float
    account: str = ""
    order: int = 0
    """How many steering requests came before it."""
    answer: str | None = None
    """Its answer as JSON."""
    error: dict[str, Any] | None = None
    is_too_long: bool = False


class SteeringRequest(msgspec.Struct, kw_only=True, frozen=True):
    """A request that starts or stops services."""

    order: int
    command: str
    about: dict[str, int | None] = {}
    """The names in the request, with the numbers of `scale`; empty: all services."""


_decode_keyed = reader(KeyedCommand)
_decode_steering = reader(SteeringRequest)
_encode = msgspec.json.Encoder().encode


class Idempotency:
    """Remembers the commands that came with keys, and their answers."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._keyed: dict[str, KeyedCommand] = {}
        self._work: dict[str, asyncio.Future[Result]] = {}
        self._notices: dict[str, dict[str, Any]] = {}
        """What commands wait for that need approval."""
        self._recent: dict[int, SteeringRequest] = {}
        self._order = 0

    def restore(self, kept: Mapping[str, str]) -> None:
        for _, text in keeper_memory.recent.entries(kept):
            try:
                request = _decode_steering(text)
            except msgspec.MsgspecError as error:
                _log.warning("an earlier request is not known any more: %s", error)
                continue
            self._recent[request.order % MOST_RECENT] = request
            self._order = max(self._order, request.order)
        found = []
        for digest, text in keeper_memory.repeat.entries(kept):
            try:
                found.append((keeper_memory.repeat(digest), _decode_keyed(text)))
            except msgspec.MsgspecError as error:
                _log.warning("a command's answer is not known any more: %s", error)
        self._keyed = dict(sorted(found, key=lambda entry: entry[1].at))

    def answer(
        self,
        actor: Actor,
        command: Command,
        key: object,
        do: Callable[[], Answer],
        admit: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Return the first answer if the command was done before, else do it. `admit` raises if the
        caller may not be told the first answer any more."""
        if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
            raise UsageError("a key is a text", f"of at most {LONGEST_KEY} letters")
        if getattr(command, "follow", False):
            raise UsageError("what is followed cannot have a key", "ask without `follow`")
        name = keeper_memory.repeat(_digest(actor.identity, key))
        self._prune()
        given, digest = self._keyed.get(name), _digest(command.name, _encode(command).decode())
        if given is None:
            new = KeyedCommand(
                command=command.name,
                digest=digest,
                at=self._now(),
                account=actor.account,
                order=self._order,
            )
            return self._do(name, new, do)
        if given.digest != digest:
            what = f"this key was given with another command ({given.command})"
            raise UsageError(what, "a key is for one command")
        if (work := self._work.get(name)) is not None:
            admit()
            return _shared(work, self._notices.get(name))
        if given.answer is None and given.error is None:
            if not command.may_be_done_again():
                admit()
                raise _unknown(given)
            if (opposite := self._opposite_since(given, command)) is not None:
                admit()
                raise _overtaken(given, opposite)
            return self._do(name, msgspec.structs.replace(given, at=self._now()), do)
        admit()
        return _again(given)

    def note(self, command: Command) -> None:
        """Remember a request that starts or stops services, before it is done."""
        if command.name not in STARTING | STOPPING | {"scale"}:
            return
        self._order += 1
        request = SteeringRequest(order=self._order, command=command.name, about=_about(command))
        place = self._order % MOST_RECENT
        self._recent[place] = request
        self._link.keep(keeper_memory.recent(str(place)), _encode(request).decode())

    def _opposite_since(self, given: KeyedCommand, command: Command) -> str | None:
        """Return a later request that doing this again would undo."""
        later = [request for request in self._recent.values() if request.order > given.order]
        if len(later) < self._order - given.order:
            return "so many others that not all are known"
        about, opposites = _about(command), OPPOSITES.get(command.name, frozenset())
        for request in sorted(later, key=lambda request: request.order):
            is_other = not about or not request.about or about.keys() & request.about.keys()
            if request.command == command.name and request.about == about:
                continue  # this very request, or the same again
            if request.command in opposites and is_other:
                return request.command
        return None

    def _do(self, name: str, given: KeyedCommand, do: Callable[[], Answer]) -> Answer:
        own = sum(self._keyed[other].account == given.account for other in self._work)
        if own >= MOST_OF_ONE or len(self._work) >= MOST:
            most = MOST_OF_ONE if own >= MOST_OF_ONE else MOST
            raise Refused(f"{most} commands with keys are under way", "await some first")
        self._keyed.pop(name, None)
        self._keyed[name] = given
        self._remember(name)
        try:
            answer = do()
        except Exception as error:
            self._failed(name, given, error)
            raise
        if isinstance(answer, Result):
            self._done(name, given, answer)
            return answer
        if isinstance(answer, AsyncGenerator):
            self._forget(name)
            return answer
        work = asyncio.ensure_future(answer)
        self._work[name] = work
        if isinstance(answer, PendingAnswer):
            self._notices[name] = answer.notice

        def ended(work: asyncio.Future[Result]) -> None:
            self._work.pop(name, None)
            self._notices.pop(name, None)
            if work.cancelled():
                return  # nobody knows whether it was done
            error = work.exception()
            if error is None:
                self._done(name, given, work.result())
            elif isinstance(error, Exception):
                self._failed(name, given, error)

        work.add_done_callback(ended)
        return _shared(work, self._notices.get(name))

    def _done(self, name: str, given: KeyedCommand, result: Result) -> None:
        text = _encode(result).decode()
        given.is_too_long = len(text) > LONGEST_ANSWER
        given.answer = "" if given.is_too_long else text
        self._remember(name)

    def _failed(self, name: str, given: KeyedCommand, error: Exception) -> None:
        if isinstance(error, NOTHING_DONE):
            self._forget(name)
            return
        known = error if isinstance(error, HoldfastError) else HoldfastError(str(error))
        given.error = known.as_fields()
        if len(_encode(given.error)) > LONGEST_ANSWER:
            del given.error["details"]
        self._remember(name)

    def _remember(self, name: str) -> None:
        """Give it to the keeper before anything else happens."""
        self._link.keep(name, _encode(self._keyed[name]).decode())
        self._link.request({"do": "keep"}, log_refusal)
        self._link.flush()

    def _forget(self, name: str) -> None:
        if self._keyed.pop(name, None) is not None:
            self._link.keep(name, None)

    def _prune(self) -> None:
        """Forget what is old or beyond the bounds. What is under way stays."""
        for name, given in list(self._keyed.items()):
            # A clock that is set back a little must not make a known command a new one.
            if abs(self._now() - given.at) > KEPT_SECONDS and name not in self._work:
                self._forget(name)
        while (surplus := self._surplus()) is not None:
            self._forget(surplus)

    def _surplus(self) -> str | None:
        """When full, return the oldest key of the account with the most, so that no account evicts
        the keys of another."""
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for given in self._keyed.values():
            counts[given.account] += 1
            sizes[given.account] += len(given.answer or "")
        is_crowded = len(self._keyed) >= MOST
        if not is_crowded and sum(sizes.values()) <= MOST_BYTES:
            return None
        for account, _ in (counts if is_crowded else sizes).most_common():
            for name, given in self._keyed.items():
                if given.account == account and name not in self._work:
                    return name
        return None

    def _now(self) -> float:
        return self._clock.time()


def _shared(work: asyncio.Future[Result], notice: dict[str, Any] | None) -> Awaitable[Result]:
    """Return an answer that all callers with the key share; a caller that leaves ends nothing."""
    answer = asyncio.shield(work)
    return answer if notice is None else PendingAnswer(answer, notice)


def _again(given: KeyedCommand) -> Answer:
    if given.error is not None:
        error = HoldfastError(
            str(given.error.get("message")),
            str(given.error.get("hint") or ""),
            given.error.get("details"),
        )
        error.__dict__["code"] = given.error.get("code", HoldfastError.code)
        raise error
    if given.is_too_long:
        raise OutcomeUnknown(
            f"{given.command} was done under this key; its answer was too long to be kept",
            "ask for what you need of it",
        )
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_result(msgspec.Raw((given.answer or "{}").encode()))
    return future


def _unknown(given: KeyedCommand) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{given.command} was begun under this key; its outcome is unknown: the supervisor died",
        "look how things are, then ask under a new key",
        {"command": given.command, "begun_at": given.at},
    )


def _overtaken(given: KeyedCommand, opposite: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the supervisor died during this {given.command}; it is not done again, because "
        f"somebody asked for {opposite} since",
        f"`holdfast status` tells how things are now; ask for {given.command} again if you want it",
        {"command": given.command, "begun_at": given.at},
    )


def _about(command: Command) -> dict[str, int | None]:
    """The names that a request is about, as they were given."""
    if (instances := getattr(command, "instances", None)) is not None:
        return dict(instances)
    one = getattr(command, "service", None)
    names = [*getattr(command, "services", ()), *([one] if one else [])]
    return dict.fromkeys(names)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:32]
