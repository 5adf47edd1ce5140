"""All sessions with backends: begins them, finds them, and tells them what their runs do.

A session's processes are runs of a service of its own, so that logs, metrics, limits and `explain`
are those of every service. How a run is started is worked out when it is started (`spawning`), so
that it goes on with the right conversation, whoever starts it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.adapters import keeper_memory
from holdfast.adapters.agents.records import SessionRecord
from holdfast.adapters.backends.adapter import Adapter
from holdfast.adapters.backends.registry import adapter_for
from holdfast.adapters.own_log import logger
from holdfast.engine.agents.backends import Backends
from holdfast.engine.agents.conversation import (
    AgentParts,
    Conversation,
    Interrupted,
    RunBegan,
    RunEnded,
)
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.engine.sessions.sessions import new_id, session_name
from holdfast.logbook.reader import Reader
from holdfast.rules import agents as rules
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.agents import AgentInfo
from holdfast.vocabulary.errors import Conflict, Failed, NotFound, UsageError
from holdfast.vocabulary.names import SERVICE_NAME_RULE, is_service_name
from holdfast.vocabulary.specs.backends import BackendSpec
from holdfast.vocabulary.specs.services import Dependency, ServiceSpec, StopSpec
from holdfast.vocabulary.states import ALIVE, Desired, State

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import SpawnRequest

KIND = "agent"
MOST_SESSIONS = 500
_OVER = (State.STOPPED, State.EXITED, State.FAILED)
_log = logger("agents")


class Agents(RunObserver):
    """The sessions of one Holdfast, by id."""

    def __init__(self, backends: Backends, parts: AgentParts) -> None:
        self._backends = backends
        self._parts = parts
        self.all: dict[str, Conversation] = {}

    def restore(self) -> None:
        """Go on with the sessions of earlier supervisors."""
        for record in self._parts.store.load():
            self._add(record)
        for conversation in self.all.values():
            runner = conversation.runner
            if runner is None:
                conversation.rest()
            if runner is None or (runner.run is None and runner.state not in ALIVE):
                if conversation.record.over < conversation.record.run:
                    self._account(conversation, runner)
            elif runner.run is not None:
                conversation.put(RunBegan(runner.number, runner.run.run_id))

    def close(self) -> None:
        for conversation in self.all.values():
            conversation.close()

    # Looking up

    def get(self, name: str) -> Conversation:
        """Return the session of this id, or that of the service of this name."""
        found = self.find(name)
        if found is None:
            known = ", ".join(one.record.service for one in self.all.values()) or "none"
            raise NotFound(f'no session "{name[:100]}"', f"sessions: {known}")
        return found

    def find(self, name: str) -> Conversation | None:
        found = self.all.get(name)
        if found is None:
            matching = [one for one in self.all.values() if one.record.service == name]
            found = matching[-1] if matching else None
        return found

    def of_service(self, name: str) -> Conversation | None:
        """Return the session that a service runs."""
        for conversation in self.all.values():
            if conversation.record.service == name:
                return conversation
        return None

    def live_in(self, backend: str, folder: str) -> Conversation | None:
        """Return a live session of a backend in a folder that nobody delegated to."""
        for conversation in self.all.values():
            record = conversation.record
            is_same = record.backend == backend and record.folder == folder
            if is_same and conversation.is_alive and record.parent is None:
                return conversation
        return None

    def of_run(self, run_id: str | None) -> Conversation | None:
        """Return the session whose process this run is."""
        for conversation in self.all.values():
            runner = conversation.runner
            if runner is not None and runner.run is not None and runner.run.run_id == run_id:
                return conversation
        return None

    def depth_of(self, session: str | None) -> int:
        """Return how many sessions stand behind one another, this one included."""
        depth = 0
        while session is not None and session in self.all and depth < 100:
            depth, session = depth + 1, self.all[session].record.parent
        return depth

    # Beginning

    async def open(
        self,
        backend: str,
        folder: str,
        opened_by: str,
        *,
        service: str | None = None,
        parent: str | None = None,
        copy_of: SessionRecord | None = None,
        worktree: str | None = None,
        repository: str | None = None,
        confined_to: str | None = None,
        is_task: bool = False,
    ) -> Conversation:
        """Begin a session and declare its service; it is on disk when this returns."""
        spec = self._backends.get(backend)
        if len(self.all) >= MOST_SESSIONS:
            raise Failed(f"there are {MOST_SESSIONS} sessions", "`holdfast agent rm` forgets some")
        if self.depth_of(parent) >= rules.DEEPEST:
            raise Conflict(
                f"{rules.DEEPEST} sessions stand behind one another already",
                "do the task yourself",
            )
        name = self.free_name(backend, service)
        end = await self._parts.in_thread(Reader(self._parts.logs, name).end)
        record = SessionRecord(
            session=session_name(new_id()),
            service=name,
            backend=backend,
            kind=spec.kind,
            folder=folder,
            opened_at=round(self._parts.environment.clock.time(), 3),
            opened_by=opened_by,
            parent=parent,
            out=end.out,
            err=end.err,
            worktree=worktree,
            repository=repository,
            is_task=is_task,
            confined_to=confined_to,
        )
        if copy_of is not None:
            record.provider_id, record.is_fork = copy_of.provider_id, True
        await self._parts.in_thread(self._parts.store.begin, record)
        conversation = self._add(record)
        self._declare(conversation)
        return conversation

    def free_name(self, backend: str, wanted: str | None) -> str:
        """Return the name for the service of a new session; raises if the wanted one is taken."""
        taken = {*self._parts.roster.runners, *(c.record.service for c in self.all.values())}
        name = wanted or rules.free_name(backend, taken)
        if not is_service_name(name):
            raise UsageError(f'"{name}" cannot be the name of a service', SERVICE_NAME_RULE)
        if name in taken:
            raise Conflict(f"there is a service {name} already", "choose another name")
        return name

    def start(self, conversation: Conversation) -> None:
        """Start its process, and the service that it needs."""
        runner = conversation.runner
        if runner is None:
            self._declare(conversation)
            runner = conversation.runner
        assert runner is not None
        record = conversation.record
        if runner.state in _OVER or runner.state is State.PENDING:
            record.condition, record.failure = "starting", None
            record.sentence = record.fix = None
        for name in self._parts.roster.start_order([runner.name]):
            self._parts.roster.start_one(self._parts.roster.runners[name])

    def restart(self, conversation: Conversation) -> None:
        """Start it anew, whatever happened; the count of crashes begins again."""
        conversation.record.crashes = 0
        runner = conversation.runner
        if runner is None or runner.state not in ALIVE:
            self.start(conversation)
        else:
            runner.restart(wait=False)

    def interrupt(self, conversation: Conversation, by: str) -> bool:
        """End the turn that is under way; returns whether there is one."""
        if not conversation.is_working:
            return False
        conversation.put(Interrupted(f"interrupted by {by}"))
        return True

    async def forget(self, conversation: Conversation) -> None:
        """Remove what is known of a session that does not run."""
        record = conversation.record
        if conversation.is_alive:
            raise Conflict(f"{record.service} runs", f"holdfast agent stop {record.service}")
        conversation.close()
        self.all.pop(record.session, None)
        await self._parts.in_thread(self._parts.store.remove, record.session)
        keeper = self._parts.environment.keeper
        keeper.keep(keeper_memory.agent_written(record.session), None)
        runner = conversation.runner
        if runner is not None and not runner.has_processes:
            self._parts.roster.remove(record.service)
            self._parts.roster.forget_environments()

    def _add(self, record: SessionRecord) -> Conversation:
        ask = partial(self._spec_of, record)
        conversation = Conversation(record, self._parts, ask)
        self.all[record.session] = conversation
        conversation.begin()
        return conversation

    def _spec_of(self, record: SessionRecord) -> tuple[BackendSpec, Adapter, str | None]:
        spec = self._backends.specs.get(record.backend)
        if spec is None:
            # It was taken out of the configuration; what runs goes on as it is.
            spec = BackendSpec(name=record.backend, kind=record.kind)
        return spec, adapter_for(spec.kind), self._backends.program_of(spec)

    def _declare(self, conversation: Conversation) -> None:
        record = conversation.record
        spec, adapter, program = self._spec_of(record)
        needs = (Dependency(service=spec.service, condition="ready"),) if spec.service else ()
        argv = (program or (spec.command[0] if spec.command else adapter.usual),)
        service = ServiceSpec(
            name=record.service,
            argv=argv,
            working_dir=record.folder,
            confined_to=record.confined_to,
            kind="agent",
            terminal=spec.mode == "pty",
            stdin="null" if spec.mode == "pty" else "pipe",
            restart_policy="never",
            start_seconds=0.0,
            stop=StopSpec(grace=5.0),
            autostart=False,
            origin="run",
            depends_on=needs,
        )
        environ = self._backends.environ_of(spec)
        self._parts.roster.declare(Declaration(service, environ))

    # What its runs do

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        if runner.declaration.spec.kind != KIND:
            return
        conversation = self.of_service(runner.name)
        if conversation is None:
            return
        plan = conversation.plan()
        message["argv"] = list(plan.argv)
        message["env"] = {**message.get("env", {}), **plan.env}

    def run_began(self, runner: Runner) -> None:
        if runner.declaration.spec.kind != KIND or runner.run is None:
            return
        conversation = self.of_service(runner.name)
        if conversation is not None:
            conversation.put(RunBegan(runner.number, runner.run.run_id))

    def changed(self, runner: Runner) -> None:
        if runner.declaration.spec.kind != KIND or runner.state not in _OVER:
            return
        conversation = self.of_service(runner.name)
        if conversation is not None:
            self._account(conversation, runner)

    def _account(self, conversation: Conversation, runner: Runner | None) -> None:
        """Tell a session that its run is over, once."""
        record = conversation.record
        if runner is None:
            ended = RunEnded(record.run, None, None, 0.0, None, is_stopped=True, is_spawned=True)
            conversation.put(ended)
            return
        is_spawned = runner.accounted is not None and runner.accounted == runner.last_run_id
        if conversation.told_over >= runner.number:
            return
        conversation.told_over = runner.number
        last = runner.last_exit
        conversation.put(
            RunEnded(
                runner.number,
                last.code,
                last.signal,
                last.seconds or 0.0,
                runner.reason,
                is_stopped=runner.desired is Desired.STOPPED,
                is_spawned=is_spawned,
            )
        )

    # What others see

    def describe(self, conversation: Conversation) -> AgentInfo:
        record, runner = conversation.record, conversation.runner
        spec, _, _ = self._spec_of(record)
        totals = record.totals
        return AgentInfo(
            session=record.session,
            service=record.service,
            backend=record.backend,
            kind=record.kind,
            mode=spec.mode,
            state=runner.state.value if runner is not None else State.STOPPED.value,
            condition=record.condition,
            folder=record.folder,
            worktree=record.worktree,
            provider_id=record.provider_id,
            run_id=runner.run.run_id if runner is not None and runner.run is not None else None,
            opened_at=record.opened_at,
            opened_by=record.opened_by,
            parent=record.parent,
            turn=record.turn,
            is_working=conversation.is_working,
            queued=len(record.queue),
            approvals=[pending.approval for pending in record.pending],
            input_tokens=totals.input_tokens,
            output_tokens=totals.output_tokens,
            cost=round(totals.cost, 6),
            seconds=round(totals.seconds, 3),
            crashes=record.crashes,
            failure=record.failure,
            sentence=redact(record.sentence) if record.sentence else None,
            fix=record.fix,
            next_start_at=record.next_start_at,
            events=record.seq,
        )
