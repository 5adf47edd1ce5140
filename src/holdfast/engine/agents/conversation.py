"""One session: hears what its process says, answers it, and decides what follows its end.

The keeper records every byte that the process prints, as for any service, and this reads the record
at a place of its own; so whatever dies, nothing that was said is lost or heard twice. One task does
everything of a session in order: what the process said first, then what was asked of it. A
checkpoint is on disk before anything is written to the process because of it, and the keeper
remembers together with each writing that it was done, so nothing is said twice either.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.agents.records import (
    AgentStore,
    PendingPermission,
    SessionRecord,
    encode_events,
    encode_record,
    packed,
)
from holdfast.adapters.backends.adapter import (
    Adapter,
    AgentWord,
    Decide,
    Dialect,
    Ended,
    Interrupt,
    Launch,
    Plan,
    Prompt,
    Verdict,
)
from holdfast.adapters.own_log import logger
from holdfast.engine.authority.approvals import ApprovalQueue, StandingApproval
from holdfast.engine.output.subscriptions import OutputSubscriptions
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.runner import Runner
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Chunk, Note
from holdfast.logbook.reader import Reader, Walk
from holdfast.rules import agents as rules
from holdfast.secrets.redaction import redact, redact_fields
from holdfast.system.patterns import pattern
from holdfast.vocabulary.agents import AgentEventKind as Kind
from holdfast.vocabulary.agents import FailureClass
from holdfast.vocabulary.authority import ApprovalInfo
from holdfast.vocabulary.errors import Conflict, Failed, UsageError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.backends import BackendSpec
from holdfast.vocabulary.states import ALIVE, State

PIECE_BYTES = 256 << 10
LONGEST_LINE_BYTES = 32 << 20
CHECKPOINT_BYTES = 1 << 20
"""At least so often there is a checkpoint, so that little is read again."""
LONGEST_PROMPT = 512 << 10
MOST_QUEUED = 20
RECENT_EVENTS = 500
RECENT_BYTES = 256 << 10
LAST_ERRORS = 20
LONGEST_ANSWER = 256 << 10
RESUME_SECONDS = 10.0
"""A stalled turn that was interrupted may take so long to end, before it is started again."""
RETRY_WRITE_SECONDS = 0.2
SHORT_WORD = 12
"""Pieces of words that are shorter are told at once."""
LAST_WORD = pattern(r"[A-Za-z0-9_+/=.:~@-]+\Z")
_SIGNS_OF_WORK = (Kind.TEXT_DELTA, Kind.THOUGHT_DELTA, Kind.TOOL_STARTED, Kind.TOOL_FINISHED)
_PASSING = (Kind.TEXT_DELTA, Kind.THOUGHT_DELTA, Kind.RAW, Kind.TOOL_UPDATED)
"""Events after which no checkpoint is needed."""
_log = logger("agents")
InThread = Callable[..., Awaitable[Any]]
Event = dict[str, Any]


class AgentParts(NamedTuple):
    """What all conversations share."""

    environment: RunnerEnvironment
    roster: Roster
    subscriptions: OutputSubscriptions
    approvals: ApprovalQueue
    store: AgentStore
    in_thread: InThread
    logs: str
    mcp_command: tuple[str, ...]


class AskSpec(Protocol):
    """Returns what the configuration says about the backend, and where its program is."""

    def __call__(self) -> tuple[BackendSpec, Adapter, str | None]: ...


class RunBegan(NamedTuple):
    number: int
    run_id: str


class RunEnded(NamedTuple):
    number: int
    code: int | None
    signal: str | None
    seconds: float
    reason: str | None
    is_stopped: bool
    is_spawned: bool


class Asked(NamedTuple):
    """Give it this prompt when it has time."""

    text: str


class Interrupted(NamedTuple):
    why: str
    reason: str = "interrupted"


class Decided(NamedTuple):
    request: str
    is_approved: bool
    reason: str
    by: str


class Checked(NamedTuple):
    """A deadline has come: of the start, the turn or the interrupt."""

    what: str
    number: int


Act = RunBegan | RunEnded | Asked | Interrupted | Decided | Checked


class _Held(NamedTuple):
    """The end of a text that waits for the rest of its last word."""

    kind: Kind | None = None
    shown: str = ""
    """The beginning of the word, which is told already."""
    text: str = ""
    at: float | None = None


class _Pieces(NamedTuple):
    """A part of the log that was read."""

    chunks: list[Chunk | Note]
    is_end: bool


class RecentEvents:
    """The last events of a transcript, in memory for those who follow it: never more than
    RECENT_EVENTS, and never more than RECENT_BYTES of what is written."""

    def __init__(self) -> None:
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0

    def add(self, events: list[Event], written: bytes) -> None:
        """Add events, and what was written of them: a line each."""
        for event, line in zip(events, written.splitlines(), strict=True):
            self._events.append((event, len(line)))
            self._bytes += len(line)
        while len(self._events) > RECENT_EVENTS or self._bytes > RECENT_BYTES:
            self._bytes -= self._events.popleft()[1]

    def after(self, seq: int) -> list[Event]:
        """Return those behind a number; the first ones may be missing."""
        return [event for event, _ in self._events if event["seq"] > seq]


class Conversation:
    """One session with a backend."""

    def __init__(self, record: SessionRecord, parts: AgentParts, ask_spec: AskSpec) -> None:
        self.record = record
        self._parts = parts
        self._ask_spec = ask_spec
        self._dialect: Dialect | None = None
        self._walk: Walk | None = None
        self._lines: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
        self._places = {"out": record.out, "err": record.err}
        self._acts: deque[Act] = deque()
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._batch: list[Event] = []
        self._is_due = False
        """Whether the next writing is a checkpoint."""
        self._size = record.transcript
        """The size of the transcript, with what no checkpoint has yet."""
        self._unchecked = 0
        self._recent = RecentEvents()
        self._changes: list[asyncio.Future[None]] = []
        self._in_flight = 0
        """Whether the first of the outbox is on its way to the keeper: 1 or 0."""
        self._is_held = False
        self._timers: dict[str, PendingCall] = {}
        self._last_words: deque[AgentWord] = deque(maxlen=LAST_ERRORS)
        self._last_sign = 0.0
        self._run_began = 0.0
        self._interrupted: str | None = None
        """The reason of the turn under way, if it was interrupted by us."""
        self._held = _Held()
        self.told_over = record.over
        """The number of the last run of whose end it was told."""
        self.is_closed = False

    # From outside

    @property
    def runner(self) -> Runner | None:
        return self._parts.roster.runners.get(self.record.service)

    @property
    def is_alive(self) -> bool:
        runner = self.runner
        return runner is not None and runner.state in ALIVE

    @property
    def is_working(self) -> bool:
        return self.record.turn_began is not None

    @property
    def worktree_end(self) -> str:
        """What becomes of its worktree when it is forgotten."""
        spec, _, _ = self._ask_spec()
        return spec.worktree_end

    def begin(self) -> None:
        """Begin to follow its process; after a death of the supervisor, where that was."""
        self._repost_permissions()
        self._in_flight = self._already_written()
        del self.record.outbox[: self._in_flight]
        self.record.written += self._in_flight
        self._in_flight = 0
        self._stop_watching = self._parts.subscriptions.call_on_growth(
            self.record.service, self._bell.set
        )
        self._task = asyncio.get_running_loop().create_task(self._live())
        if self.record.next_start_at is not None:
            wait = self.record.next_start_at - self._parts.environment.clock.steady()
            self._set_timer("start", max(0.0, wait), self._start_again)
        if self.is_working:
            self._watch_turn()

    @property
    def next_start_in(self) -> float | None:
        """The seconds until it is started again after a crash, if that is planned."""
        at = self.record.next_start_at
        if at is None:
            return None
        return max(0.0, at - self._parts.environment.clock.steady())

    def cancel_start(self) -> None:
        """Start it no more by itself."""
        self._cancel_timer("start")
        self.record.next_start_at = None
        if self.record.condition == "backoff":
            self.record.condition = "stopped"

    def rest(self) -> None:
        """Nothing runs for it: Holdfast was down."""
        self._cancel_timer("start")
        self.record.next_start_at = None
        if self.record.condition not in ("new", "stopped", "suppressed"):
            self.record.condition = "stopped"

    def close(self) -> None:
        """Stop following: this supervisor ends, or the session is forgotten."""
        self.is_closed = True
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._changed()

    def put(self, act: Act) -> None:
        """Do this, after what was said and asked before."""
        self._acts.append(act)
        self._bell.set()

    def prompt(self, text: str) -> int:
        """Queue a prompt; returns the number of its turn."""
        record = self.record
        if not text.strip():
            raise UsageError("the prompt is empty", "write what the agent is to do")
        if len(text.encode()) > LONGEST_PROMPT:
            raise UsageError("the prompt is longer than 512 KiB", "name files instead")
        spec, _, _ = self._ask_spec()
        if spec.mode == "pty":
            raise Failed(
                f"{record.service} runs in a terminal",
                f"`holdfast attach {record.service}` opens it",
            )
        if (limit := self._limit(spec)) is not None:
            raise Failed(f"its budget is used up: {limit}", "raise `budget`, or begin a session")
        waiting = len(record.queue) + sum(isinstance(act, Asked) for act in self._acts)
        if waiting >= MOST_QUEUED:
            raise Conflict(f"{waiting} prompts wait already", "wait, or interrupt it")
        if not self.is_alive and record.condition not in ("new", "starting", "backoff"):
            why = record.sentence or record.condition
            raise Failed(
                f"{record.service} does not run ({why})",
                record.fix or f"`holdfast agent resume {record.service}` starts it",
            )
        self.put(Asked(text))
        return record.turn + waiting + 1

    def plan(self) -> Plan:
        """Return how its next run is started."""
        _, adapter, _ = self._ask_spec()
        return adapter.plan(self.launch())

    def launch(self) -> Launch:
        spec, _, program = self._ask_spec()
        record = self.record
        return Launch(
            spec=spec,
            session=record.session,
            folder=record.folder,
            provider_id=record.provider_id,
            is_fork=record.is_fork,
            mcp=self._parts.mcp_command if spec.mcp else (),
            program=program,
            history=self._parts.store.transcript(
                record.provider_id if record.is_fork and record.provider_id else record.session
            ),
        )

    async def follow(self, after: int, turn: int | None) -> AsyncGenerator[Event, None]:
        """Yield the events behind a number, and those that come; with `turn` to its end."""
        place, seen = 0, after
        while True:
            change = self.next_change()
            recent = self._recent.after(seen)
            if seen >= self.record.seq:
                events: list[Event] = []
            elif recent and recent[0]["seq"] == seen + 1:
                events = recent
            else:
                events, place = await self._parts.in_thread(
                    self._parts.store.events, self.record.session, place, self._size
                )
            is_more = bool(events)
            for event in events:
                if event["seq"] <= seen:
                    continue
                seen = event["seq"]
                yield event
                is_end = event["kind"] == Kind.TURN_FINISHED.value
                if turn is not None and is_end and event.get("turn", 0) >= turn:
                    return
            if self.is_closed:
                return
            if not is_more:
                await change
            else:
                change.cancel()

    async def read(self, after: int, limit: int) -> tuple[list[Event], bool]:
        """Return events behind a number, and whether these are all."""
        found: list[Event] = []
        place, size = 0, self._size
        while place < size:
            events, behind = await self._parts.in_thread(
                self._parts.store.events, self.record.session, place, size
            )
            if behind == place:
                break
            place = behind
            found += [event for event in events if event["seq"] > after]
            if len(found) > limit:
                return found[:limit], False
        return found, True

    def next_change(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(future)
        return future

    # The one task

    async def _live(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            try:
                while await self._step():
                    pass
            except asyncio.CancelledError:
                raise
            except Exception:  # noqa: BLE001 - one session must not end the others
                _log.exception("the session %s failed", self.record.session)
                await asyncio.sleep(1.0)
                self._reread()
                self._bell.set()

    async def _step(self) -> bool:
        """Hear what was said, then do what was asked; returns whether there may be more."""
        pieces: _Pieces = await self._parts.in_thread(self._read)
        for piece in pieces.chunks:
            self._hear(piece)
        did = False
        if pieces.is_end:
            while self._acts:
                self._do(self._acts.popleft())
                did = True
            self._next_prompt()
        await self._write()
        return did or not pieces.is_end

    def _read(self) -> _Pieces:
        """Read a part of the log; in a thread."""
        if self._walk is None:
            reader = Reader(self._parts.logs, self.record.service)
            self._walk = reader.chunks(Cursor(self._places["out"], self._places["err"]))
        found: list[Chunk | Note] = []
        size = 0
        for piece in self._walk:
            found.append(piece)
            size += len(piece.data) if isinstance(piece, Chunk) else 0
            if size >= PIECE_BYTES:
                return _Pieces(found, False)
        return _Pieces(found, True)

    def _reread(self) -> None:
        """Read on behind the last line that was heard, after a fault."""
        if self._walk is not None:
            self._walk.close()
            self._walk = None
        self._lines = {"out": bytearray(), "err": bytearray()}

    # Hearing

    def _hear(self, piece: Chunk | Note) -> None:
        if isinstance(piece, Note):
            if piece.is_hole:
                self._add(AgentWord(Kind.WARNING, {"text": f"output is missing: {piece.text}"}))
            return
        if piece.run != self.record.run and piece.run:
            if piece.run < self.record.run:
                self._pass(piece)
                return
            self._begin_run(piece.run, "")
        lines = self._lines[piece.stream]
        lines += piece.data
        self._last_sign = self._parts.environment.clock.monotonic()
        while (end := lines.find(b"\n")) >= 0:
            line = bytes(lines[:end])
            del lines[: end + 1]
            # Before it is heard, so that no fault tells it twice.
            self._places[piece.stream] = piece.end - len(lines)
            self._hear_line(piece.stream, line, piece.time)
        if len(lines) > LONGEST_LINE_BYTES:
            self._hear_line(piece.stream, bytes(lines), piece.time)
            lines.clear()
        self._places[piece.stream] = piece.end - len(lines)

    def _pass(self, chunk: Chunk) -> None:
        """Leave out what a run printed that was over before."""
        self._places[chunk.stream] = chunk.end

    def _hear_line(self, stream: str, line: bytes, at: float | None) -> None:
        if stream == "err" and line.strip():
            self.record.errors.append(redact(line.decode("utf-8", "replace"))[:1000])
            del self.record.errors[:-LAST_ERRORS]
        dialect = self._the_dialect()
        heard = dialect.hear("out" if stream == "out" else "err", line)
        for word in heard.words:
            self._on_word(word, at)
        if heard.reply:
            self._say(heard.reply)

    def _the_dialect(self) -> Dialect:
        if self._dialect is None:
            _, adapter, _ = self._ask_spec()
            self._dialect = adapter.dialect(self.launch(), self.record.memory)
        return self._dialect

    def _on_word(self, word: AgentWord, at: float | None) -> None:
        record = self.record
        kind, data = word
        if kind in (Kind.WARNING, Kind.RETRYING, Kind.TURN_FINISHED, Kind.RAW):
            self._last_words.append(word)
        if kind in _SIGNS_OF_WORK and record.condition in ("retrying", "stalled"):
            self._be("working")
        match kind:
            case Kind.SESSION_BOUND:
                self._on_bound(data)
            case Kind.TEXT_DELTA | Kind.THOUGHT_DELTA:
                if kind is Kind.TEXT_DELTA:
                    record.answer = (record.answer + str(data.get("text", "")))[-LONGEST_ANSWER:]
                self._add_delta(kind, str(data.get("text", "")), at)
                return
            case Kind.APPROVAL_REQUESTED:
                word = self._on_permission(word)
            case Kind.APPROVAL_SETTLED:
                self._forget_permission(str(data.get("request")))
            case Kind.RETRYING:
                cause = redact(str(data.get("cause") or "its model does not answer"))
                self._be(
                    "retrying",
                    FailureClass.UPSTREAM_UNREACHABLE,
                    f"it does not reach its model and tries again: {cause}",
                )
            case Kind.WARNING if data.get("is_final") and not record.is_ready:
                runner = self.runner
                if runner is not None and runner.state in ALIVE:
                    runner.end_as_failure("refused", redact(str(data.get("text"))))
            case Kind.USAGE:
                self._on_usage(data)
            case Kind.TURN_FINISHED:
                self._on_turn_finished(word, at)
                return
            case _:
                pass
        self._add(word, at)
        if kind is Kind.USAGE and self.is_working:
            self._enforce_budget()

    def _on_bound(self, data: dict[str, Any]) -> None:
        record = self.record
        found = data.get("provider_id")
        if isinstance(found, str) and found:
            if found != record.provider_id:
                record.provider_ids = [*record.provider_ids, found][-20:]
            record.provider_id, record.is_fork = found, False
        if not record.is_ready:
            record.is_ready = True
            self._cancel_timer("ready")
        if record.condition in ("starting", "new", "backoff", "retrying") and not self.is_working:
            self._be("ready")

    def _on_usage(self, data: dict[str, Any]) -> None:
        totals = self.record.totals
        totals.input_tokens += int(data.get("input_tokens") or 0)
        totals.output_tokens += int(data.get("output_tokens") or 0)
        if isinstance(data.get("cost"), int | float):
            totals.cost += float(data["cost"])
        if isinstance(data.get("total_cost"), int | float):
            # Of this process alone, whose earlier turns are in it.
            before = float(self.record.memory.get("cost_before", 0.0))
            totals.cost += max(0.0, float(data["total_cost"]) - before)
            self.record.memory["cost_before"] = float(data["total_cost"])

    def _on_turn_finished(self, word: AgentWord, at: float | None) -> None:
        record = self.record
        data = dict(word.data)
        self._cancel_timer("turn")
        self._cancel_timer("interrupt")
        if self._interrupted is not None and data.get("reason") != "done":
            data["reason"] = self._interrupted
        self._interrupted = None
        if record.turn_began is not None:
            now = self._parts.environment.clock.steady()
            seconds = max(0.0, round((at or now) - record.turn_began, 3))
            record.totals.seconds += seconds
            record.totals.turns += 1
            data["seconds"] = seconds
        result = data.pop("result", None)
        if isinstance(result, str) and not record.answer:
            record.answer = result
        data["turn"] = record.turn
        for pending in list(record.pending):
            self._forget_permission(pending.request)
        record.turn_began = None
        if data.get("reason") == "done":
            record.crashes = 0
        failure: FailureClass | None = None
        if data.get("reason") == "failed":
            failure = self._class_of_failed_turn(str(data.get("text") or ""))
        sentence = redact(str(data.get("text") or "")) if failure else None
        self._add(AgentWord(Kind.TURN_FINISHED, data), at)
        self._be("ready", failure, sentence, self._fix_for(failure))
        facts = {"turn": record.turn, "reason": data.get("reason")}
        self._event(EventKind.AGENT_TURN, **facts, seconds=data.get("seconds"))

    def _class_of_failed_turn(self, text: str) -> FailureClass | None:
        _, adapter, _ = self._ask_spec()
        word = AgentWord(Kind.WARNING, {"text": text})
        ended = Ended(None, None, 0.0, True, (), (*self._last_words, word))
        failure = adapter.judge(ended).failure
        return None if failure is FailureClass.CRASHED else failure

    def _fix_for(self, failure: FailureClass | None) -> str | None:
        if failure is None:
            return None
        _, adapter, _ = self._ask_spec()
        ended = Ended(None, None, 0.0, True, (), tuple(self._last_words))
        return adapter.judge(ended).fix or None

    # Permissions

    def _on_permission(self, word: AgentWord) -> AgentWord:
        record, data = self.record, dict(word.data)
        request, tool = str(data.get("request")), str(data.get("tool") or "a tool")
        given = data.get("input")
        given = given if isinstance(given, dict) else {}
        spec, _, _ = self._ask_spec()
        digest = hashlib.sha256(f"{record.session}\0{record.run}\0{request}".encode()).hexdigest()
        pending = PendingPermission(
            request=request,
            approval=f"approval-{digest[:8]}",
            tool=tool,
            title=str(data.get("title") or ""),
            input=redact_fields(dict(given)),
            asked_at=round(self._parts.environment.clock.steady(), 3),
        )
        record.pending = [*(p for p in record.pending if p.request != request), pending]
        data["approval"] = pending.approval
        match rules.rule_for(spec, tool, given, record.folder):
            case "allow":
                self._acts.append(Decided(request, True, "", "rule"))
            case "deny":
                why = "a rule of the configuration refuses it"
                self._acts.append(Decided(request, False, why, "rule"))
            case "ask":
                self._be("waiting_approval")
                self._post(pending, spec, is_quiet=False)
        self._bell.set()
        return AgentWord(Kind.APPROVAL_REQUESTED, data)

    def _post(self, pending: PendingPermission, spec: BackendSpec, *, is_quiet: bool) -> None:
        record = self.record
        until = None if spec.approve_within is None else pending.asked_at + spec.approve_within
        info = ApprovalInfo(
            approval=pending.approval,
            command="use_tool",
            arguments={
                "service": record.service,
                "session": record.session,
                "tool": pending.tool,
                "input": pending.input,
            },
            actor=f"agent {record.service}",
            role="agent",
            door="agent",
            session=record.session,
            policy="agents",
            reason=redact(pending.title) or "the agent asks before it uses this tool",
            approvers="operator",
            asked_at=pending.asked_at,
            expires_at=until,
        )
        standing = StandingApproval(info, partial(self._on_decided, pending.request))
        self._parts.approvals.post(standing, is_quiet=is_quiet)
        if until is not None:
            wait = max(0.0, until - self._parts.environment.clock.steady())
            expire = partial(self._expire, standing)
            self._set_timer(f"approval {pending.request}", wait, expire)

    def _expire(self, standing: StandingApproval) -> None:
        if any(p.approval == standing.info.approval for p in self.record.pending):
            self._parts.approvals.settle(standing, "expired", None, "nobody approved it in time")

    def _on_decided(self, request: str, info: ApprovalInfo) -> None:
        is_approved = info.state == "approved"
        reason = info.why or ("" if is_approved else "it was refused")
        self.put(Decided(request, is_approved, reason, info.by or "nobody"))

    def _forget_permission(self, request: str) -> None:
        """The agent does not wait for it any more."""
        for pending in self.record.pending:
            if pending.request == request:
                self._parts.approvals.withdraw(pending.approval)
        self.record.pending = [p for p in self.record.pending if p.request != request]
        self._cancel_timer(f"approval {request}")
        if not self.record.pending and self.record.condition == "waiting_approval":
            self._be("working")

    def _repost_permissions(self) -> None:
        """Let the permissions that wait stand in this supervisor's inbox, too."""
        if not self.record.pending:
            return
        spec, _, _ = self._ask_spec()
        for pending in self.record.pending:
            if rules.rule_for(spec, pending.tool, pending.input, self.record.folder) == "ask":
                self._post(pending, spec, is_quiet=True)

    # Doing

    def _do(self, act: Act) -> None:
        match act:
            case RunBegan(number, run_id):
                self._begin_run(number, run_id)
            case RunEnded():
                self._end_run(act)
            case Asked(text):
                self.record.queue.append(text)
                self._is_due = True
            case Interrupted(why, reason):
                self._interrupt(why, reason)
            case Decided(request, is_approved, reason, by):
                self._decide(request, is_approved, reason, by)
            case Checked(what, number):
                self._check(what, number)

    def _begin_run(self, number: int, run_id: str) -> None:
        record = self.record
        if record.run == number:
            return  # it goes on
        for stream in ("out", "err"):
            self._flush_rest(stream)
        record.run, record.is_ready, record.memory, record.errors = number, False, {}, []
        record.outbox, record.written, record.next_start_at = [], 0, None
        self._in_flight, self._dialect, self._interrupted = 0, None, None
        self._last_words.clear()
        self._run_began = self._parts.environment.clock.monotonic()
        keeper = self._parts.environment.keeper
        keeper.keep(keeper_memory.agent_written(record.session), None)
        self._cancel_timer("start")
        facts: dict[str, Any] = {"number": number}
        self._add(AgentWord(Kind.RUN_STARTED, facts | ({"run_id": run_id} if run_id else {})))
        spec, _, _ = self._ask_spec()
        if spec.mode == "pty":
            self._be("ready")
            return
        self._be("starting")
        self._say(self._the_dialect().greet())
        self._set_timer("ready", spec.start_timeout, partial(self.put, Checked("ready", number)))

    def _flush_rest(self, stream: str) -> None:
        rest = bytes(self._lines[stream])
        if rest:
            self._lines[stream].clear()
            self._places[stream] += len(rest)
            self._hear_line(stream, rest, None)

    def _end_run(self, ended: RunEnded) -> None:
        record = self.record
        if ended.is_spawned and record.over >= ended.number:
            return
        for stream in ("out", "err"):
            self._flush_rest(stream)
        record.over = max(record.over, ended.number)
        was_ready = record.is_ready
        spec, adapter, _ = self._ask_spec()
        verdict = self._verdict(ended, adapter)
        is_asked = ended.is_stopped
        if self.is_working:
            why = "it was stopped" if is_asked else verdict.sentence
            reason = "interrupted" if is_asked else "failed"
            finished = AgentWord(Kind.TURN_FINISHED, {"reason": reason, "text": why})
            self._on_turn_finished(finished, None)
        for pending in list(record.pending):
            self._forget_permission(pending.request)
        facts: dict[str, Any] = {"code": ended.code, "signal": ended.signal}
        if not is_asked:
            facts |= {"failure": verdict.failure.value, "sentence": verdict.sentence}
            facts |= {"fix": verdict.fix or None}
        known = {key: value for key, value in facts.items() if value is not None}
        self._add(AgentWord(Kind.RUN_ENDED, known))
        record.outbox, record.is_ready = [], False
        for name in ("ready", "turn", "interrupt"):
            self._cancel_timer(name)
        if is_asked:
            self._be("stopped")
            return
        was_good = was_ready or (
            not self._has_ready(spec) and ended.seconds >= rules.GOOD_START_SECONDS
        )
        if verdict.failure is FailureClass.CRASHED:
            record.crashes += 1
        step, delay = rules.after_end(
            verdict.retry, was_good=was_good, crashes=record.crashes, most=spec.max_crashes
        )
        sentence, fix = verdict.sentence, verdict.fix
        if step == "restart":
            record.next_start_at = self._parts.environment.clock.steady() + delay
            self._set_timer("start", delay, self._start_again)
            self._be("backoff", verdict.failure, sentence, fix)
        elif step == "suppress":
            sentence = f"{sentence}; it has crashed {record.crashes} times in a row"
            fix = f"holdfast agent restart {record.service}"
            self._be("suppressed", verdict.failure, sentence, fix)
        else:
            fix = fix or f"holdfast agent restart {record.service}"
            self._be(verdict.failure.value, verdict.failure, sentence, fix)

    def _has_ready(self, spec: BackendSpec) -> bool:
        return spec.mode != "pty"

    def _verdict(self, ended: RunEnded, adapter: Adapter) -> Verdict:
        if not ended.is_spawned:
            sentence = f"it cannot be started: {ended.reason}"
            fix = adapter.install
            return Verdict(failure=FailureClass.NOT_INSTALLED, sentence=sentence, fix=fix)
        record = self.record
        if record.memory.get("stalled"):
            sentence = str(record.memory["stalled"])
            retry = "backoff" if record.is_ready else "never"
            return Verdict(
                failure=FailureClass.STALLED,
                sentence=sentence,
                fix="holdfast agent doctor",
                retry=retry,  # type: ignore[arg-type]
            )
        found = adapter.judge(
            Ended(
                ended.code,
                ended.signal,
                ended.seconds,
                record.is_ready,
                tuple(record.errors),
                tuple(self._last_words),
            )
        )
        return msgspec.structs.replace(found, sentence=redact(found.sentence))

    def _next_prompt(self) -> None:
        """Begin the next turn, if there is a prompt and the session is free."""
        record = self.record
        if not record.queue or self.is_working or not record.is_ready or not self.is_alive:
            return
        text = record.queue.pop(0)
        record.turn += 1
        record.turn_began = self._parts.environment.clock.steady()
        record.answer = ""
        self._add(AgentWord(Kind.TURN_STARTED, {"turn": record.turn, "text": text}))
        spec, _, _ = self._ask_spec()
        if (limit := self._limit(spec)) is not None:
            data = {"reason": "limit", "text": f"its budget is used up: {limit}"}
            self._on_turn_finished(AgentWord(Kind.TURN_FINISHED, data), None)
            return
        self._say(self._the_dialect().say(Prompt(record.turn, text)))
        self._be("working")
        self._watch_turn()

    def _interrupt(self, why: str, reason: str) -> None:
        if not self.is_working:
            return
        self._interrupted = reason
        self._add(AgentWord(Kind.WARNING, {"text": why}))
        for pending in list(self.record.pending):
            self._decide(pending.request, False, "the turn was interrupted", "interrupt")
        self._say(self._the_dialect().say(Interrupt(self.record.turn)))
        spec, _, _ = self._ask_spec()
        wait = min(RESUME_SECONDS, max(1.0, spec.stall))
        end = Checked("interrupt", self.record.turn)
        self._set_timer("interrupt", wait, partial(self.put, end))

    def _decide(self, request: str, is_approved: bool, reason: str, by: str) -> None:
        if all(pending.request != request for pending in self.record.pending):
            return
        self._say(self._the_dialect().say(Decide(request, is_approved, reason)))
        self._forget_permission(request)
        facts = {"request": request, "is_approved": is_approved, "reason": reason, "by": by}
        self._add(AgentWord(Kind.APPROVAL_SETTLED, facts))

    def _check(self, what: str, number: int) -> None:
        record = self.record
        spec, _, _ = self._ask_spec()
        match what:
            case "ready" if record.run == number and not record.is_ready:
                self._end_as_stalled(f"it was not ready within {spec.start_timeout:g} s")
            case "turn" if self.is_working and record.turn == number:
                idle = self._parts.environment.clock.monotonic() - self._last_sign
                if record.pending or self._is_busy():
                    idle = 0.0
                if idle < spec.stall - 0.01:
                    self._watch_turn(spec.stall - idle)
                    return
                why = f"no sign of life for {idle:.0f} s, no processor time used"
                self._be("stalled", FailureClass.STALLED, why, "it is interrupted")
                self._interrupt(f"{why}: it is interrupted", "interrupted")
            case "interrupt" if self.is_working and record.turn == number:
                self._end_as_stalled("it did not end its turn when it was interrupted")
            case _:
                pass

    def _end_as_stalled(self, why: str) -> None:
        self.record.memory["stalled"] = why
        self._is_due = True
        runner = self.runner
        if runner is not None and runner.state in ALIVE:
            runner.end_as_failure("stalled", why)

    def _is_busy(self) -> bool:
        """Whether its processes do something although they say nothing."""
        runner = self.runner
        usage = runner.run.usage if runner is not None and runner.run is not None else None
        return usage is not None and usage.cpu_percent >= 1.0

    def _watch_turn(self, seconds: float | None = None) -> None:
        spec, _, _ = self._ask_spec()
        if seconds is None:
            self._last_sign = self._parts.environment.clock.monotonic()
        act = Checked("turn", self.record.turn)
        self._set_timer("turn", seconds or spec.stall, partial(self.put, act))
        budget = spec.budget.seconds
        if budget is not None and self.record.turn_began is not None:
            used = self.record.totals.seconds
            since = self._parts.environment.clock.steady() - self.record.turn_began
            left = max(0.0, budget - used - since)
            why = f"its budget is used up: it has worked {budget:.0f} seconds"
            self._set_timer("budget", left, partial(self.put, Interrupted(why, "limit")))

    def _enforce_budget(self) -> None:
        spec, _, _ = self._ask_spec()
        limit = self._limit(spec, is_in_turn=True)
        if limit is not None and self._interrupted is None:
            self._acts.append(Interrupted(f"its budget is used up: {limit}", "limit"))

    def _limit(self, spec: BackendSpec, *, is_in_turn: bool = False) -> str | None:
        totals = self.record.totals
        tokens = totals.input_tokens + totals.output_tokens
        turns = -1 if is_in_turn else totals.turns
        return rules.exceeded(
            spec.budget, tokens=tokens, cost=totals.cost, turns=turns, seconds=totals.seconds
        )

    def _start_again(self) -> None:
        """The back-off is over."""
        self._timers.pop("start", None)
        runner = self.runner
        if runner is None or self.is_closed or runner.state in ALIVE or runner.is_retiring:
            return
        if runner.state is State.STOPPING or runner.has_processes:
            self._set_timer("start", RETRY_WRITE_SECONDS, self._start_again)
            return
        self._event(EventKind.REQUESTED, request="start", because="it goes on after its end")
        self._parts.roster.start_one(runner)

    # Writing

    def _add_delta(self, kind: Kind, text: str, at: float | None) -> None:
        """Put a piece of text into the transcript. The end of a long word waits for the rest of
        it, because it may be a secret, which could not be recognised in pieces."""
        if self._held.kind is not kind:
            self._release()
        shown, text = self._held.shown, self._held.text + text
        found = LAST_WORD.search(shown + text)
        word = found[0] if found is not None else ""
        if len(word) <= SHORT_WORD:
            self._held = _Held(kind, word, "", at)
            self._put(AgentWord(kind, {"text": _rest(shown, text)}), at)
            return
        begun = max(0, len(text) - len(word))
        self._held = _Held(kind, word[: len(word) - (len(text) - begun)], text[begun:], at)
        if begun:
            self._put(AgentWord(kind, {"text": _rest(shown, text[:begun])}), at)

    def _release(self) -> None:
        """Put the held end of a word into the transcript."""
        held, self._held = self._held, _Held()
        if held.text and held.kind is not None:
            self._put(AgentWord(held.kind, {"text": _rest(held.shown, held.text)}), held.at)

    def _add(self, word: AgentWord, at: float | None = None) -> None:
        """Put an event into the transcript."""
        self._release()
        self._put(word, at)

    def _put(self, word: AgentWord, at: float | None) -> None:
        self.record.seq += 1
        when = at if at is not None else self._parts.environment.clock.time()
        head = {"seq": self.record.seq, "at": round(when, 4), "kind": word.kind.value}
        self._batch.append({**redact_fields(word.data), **head})
        if word.kind not in _PASSING:
            self._is_due = True

    def _say(self, data: bytes) -> None:
        """Write to the process, after the next checkpoint."""
        if data:
            self.record.outbox.append(packed(data))
            self._is_due = True

    async def _write(self) -> None:
        """Write what happened to the transcript, and a checkpoint if one is due."""
        if self._is_due:
            self._release()
            self.record.answer = redact(self.record.answer)
        batch, self._batch = self._batch, []
        events = encode_events(batch)
        place = self._size
        self._unchecked += len(events)
        is_due = self._is_due
        self._is_due = self._unchecked > CHECKPOINT_BYTES
        if not events and not is_due:
            return
        checkpoint: bytes | None = None
        if is_due:
            record = self.record
            record.out, record.err = self._places["out"], self._places["err"]
            record.transcript = place + len(events)
            checkpoint = encode_record(record)
            self._is_due, self._unchecked = False, 0
        session = self.record.session
        write = self._parts.store.write
        try:
            await self._parts.in_thread(write, session, place, events, checkpoint)
        except OSError:
            # It is written together with what follows, as soon as that can be written.
            self._batch[:0], self._is_due = batch, is_due
            self._unchecked -= len(events)
            raise
        self._size = place + len(events)
        self._recent.add(batch, events)
        if checkpoint is not None:
            self._send()
        self._changed()

    def _send(self) -> None:
        """Send what is in the outbox to the process, each part once."""
        record, runner = self.record, self.runner
        if runner is None or runner.run is None or runner.number != record.run or self._is_held:
            return
        keeper = self._parts.environment.keeper
        if self._in_flight or not record.outbox:
            return
        self._in_flight = 1
        # It arrives with the request, so that one is never there without the other.
        self._note_written(record.written + 1)
        then = partial(self._on_sent, record.run)
        message: Any = {"do": "write", "run_id": runner.run.run_id, "data": record.outbox[0]}
        keeper.request(message, then)

    def _note_written(self, number: int) -> None:
        key = keeper_memory.agent_written(self.record.session)
        self._parts.environment.keeper.keep(key, f"{self.record.run}:{number}")

    def _on_sent(self, run: int, reply: Any) -> None:
        record = self.record
        if run != record.run or self.is_closed or not record.outbox:
            return
        self._in_flight = 0
        if not reply.get("ok") and (reply.get("error") or {}).get("code") == "buffer_full":
            self._is_held = True
            self._note_written(record.written)
            self._set_timer("write", RETRY_WRITE_SECONDS, self._send_again)
            return
        record.outbox.pop(0)
        record.written += 1
        self._send()

    def _send_again(self) -> None:
        self._is_held = False
        self._send()

    def _already_written(self) -> int:
        """Return how many of the outbox an earlier supervisor has sent."""
        record = self.record
        kept = self._parts.environment.keeper.kept
        text = kept.get(keeper_memory.agent_written(record.session)) or ""
        run, _, number = text.partition(":")
        if not number.isdigit() or run != str(record.run):
            return 0
        return max(0, min(len(record.outbox), int(number) - record.written))

    # Telling

    def _be(
        self,
        condition: str,
        failure: FailureClass | None = None,
        sentence: str | None = None,
        fix: str | None = None,
    ) -> None:
        record = self.record
        before = record.condition
        record.condition = condition
        record.failure = failure.value if failure is not None else None
        record.sentence, record.fix = sentence or None, fix or None
        self._is_due = True
        if before != condition or failure is not None:
            facts = {"condition": condition, "before": before, "failure": record.failure}
            facts |= {"sentence": record.sentence, "fix": record.fix}
            known = {key: value for key, value in facts.items() if value is not None}
            self._event(EventKind.AGENT_CHANGED, **known)

    def _event(self, kind: EventKind, **facts: Any) -> None:
        runner = self.runner
        run_id = runner.last_run_id if runner is not None else None
        self._parts.environment.recorder.event(
            kind, self.record.service, run_id, session=self.record.session, **facts
        )

    def _changed(self) -> None:
        changes, self._changes = self._changes, []
        for future in changes:
            if not future.done():
                future.set_result(None)

    def _set_timer(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        self._cancel_timer(name)
        self._timers[name] = self._parts.environment.call_later(seconds, call)

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


def _rest(shown: str, text: str) -> str:
    """Return a text that goes on after what was shown, redacted as a whole."""
    safe = redact(shown + text)
    return text if safe == shown + text else safe.removeprefix(shown)
