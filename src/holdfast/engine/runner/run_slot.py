"""One run of a service as the keeper knows it: asks the keeper to start, change and end it.

A runner has two slots: its current run, and beside it, while a run is replaced, a candidate or
the run that was replaced. A slot knows how far its run has come. What follows from that is the
runner's decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.engine.runner.declaration import (
    Declaration,
    Overrides,
    log_settings,
    spawn_message,
    stop_settings,
)
from holdfast.engine.runner.environment import RunnerEnvironment
from holdfast.engine.runner.live_run import LiveRun
from holdfast.rules import health
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import RecoverySpec

if TYPE_CHECKING:
    from holdfast.engine.runner.runner import Runner
    from holdfast.keeper.protocol.messages import (
        AdjustRequest,
        EndRequest,
        PauseRequest,
        RefusalFacts,
        Reply,
        ResumeRequest,
        SignalRequest,
        SpawnReply,
        SpawnRequest,
    )


class RunSlot:
    """One run, in a service's own place or beside it."""

    __slots__ = (
        "_environment", "condition", "declaration", "has_stayed", "is_end_asked", "is_ending",
        "is_over", "is_proven", "is_unkillable", "launched", "name", "overrides", "run", "runner",
    )  # fmt: skip

    def __init__(
        self,
        runner: Runner,
        environment: RunnerEnvironment,
        run: LiveRun,
        *,
        launched: ServiceSpec | None,
        overrides: Overrides | None = None,
    ) -> None:
        self.runner = runner
        self.name = runner.name
        self.run = run
        self.declaration: Declaration = runner.declaration
        self.launched = launched
        """The specification it was started with; None: unknown."""
        self.overrides = overrides
        self.condition: Condition = health.initial(runner.declaration.spec)
        """Its condition while it was a candidate, by its probes."""
        self.has_stayed = False
        """It was up for its `start_seconds`."""
        self.is_proven = False
        """As a candidate, it has stayed up and is ready."""
        self.is_ending = False
        """It is beside the current run, and has to go."""
        self.is_end_asked = False
        self.is_unkillable = False
        self.is_over = False
        """No process of it is left."""
        self._environment = environment

    @property
    def number(self) -> int:
        return self.run.number

    @property
    def ports(self) -> dict[str, int] | None:
        return self.runner.ports

    @property
    def is_usable(self) -> bool:
        """Whether it is a candidate with a process, which may take the service's place."""
        return self.run.is_up and not self.is_ending

    def facts(self) -> dict[str, Any]:
        """The run, as a status shows it beside the current one."""
        return {"run": self.run.number, "pid": self.run.pid, "leaving": self.is_ending}

    # Asking the keeper

    def spawn_message(self) -> SpawnRequest:
        """The request to start it, to which observers may add."""
        run = self.run
        return spawn_message(self.declaration, self.overrides, run.run_id, run.number)

    def spawn(
        self,
        message: SpawnRequest,
        on_started: Callable[[], None],
        on_refused: Callable[[RefusalFacts], None],
    ) -> None:
        """Ask for its process; `on_refused` gets the keeper's error."""

        def on_reply(reply: SpawnReply) -> None:
            if self.is_over:
                return
            if not reply.get("ok"):
                on_refused(reply.get("error") or {})
                return
            run = self.run
            run.pid, run.start_time = reply["pid"], reply.get("start_time")
            run.started_at = reply.get("started_at") or run.started_at
            run.enforced = frozenset(reply.get("enforced") or ())
            self.record_start()
            on_started()

        self._environment.keeper.request(message, on_reply)

    def record_start(self) -> None:
        """Put it into the history as a run without an end."""
        environment = self._environment
        environment.recorder.run_started(self.run.as_open(self.name, environment.keeper.boot_id))

    def adjust(self, spec: ServiceSpec) -> None:
        """Let what a declaration says about recording and stopping apply to it."""
        message: AdjustRequest = {
            "do": "adjust",
            "run_id": self.run.run_id,
            "log": log_settings(spec),
            "stop": stop_settings(spec),
        }
        self._environment.keeper.request(message, lambda reply: None)

    def pause(self, then: Callable[[Reply], None]) -> None:
        """Freeze its processes."""
        message: PauseRequest = {"do": "pause", "run_id": self.run.run_id}
        self._environment.keeper.request(message, then)

    def resume(self, then: Callable[[Reply], None]) -> None:
        """Let its processes go on."""
        message: ResumeRequest = {"do": "resume", "run_id": self.run.run_id}
        self._environment.keeper.request(message, then)

    def signal(self, number: int) -> None:
        """Send a signal to its main process."""
        run_id = self.run.run_id
        message: SignalRequest = {"do": "signal", "run_id": run_id, "signal": number, "to": "main"}
        self._environment.keeper.request(message, lambda reply: None)

    def end(self, grace: float | None) -> None:
        """Ask for its end; without a grace, the one of its declaration."""
        self.is_end_asked = True
        message: EndRequest = {"do": "end", "run_id": self.run.run_id}
        if grace is not None:
            message["grace"] = grace
        self._environment.keeper.request(message, self._on_end_reply)

    def _on_end_reply(self, reply: Reply) -> None:
        if reply.get("ok") or self.is_over or self.run.pid is None:
            return
        # The keeper no longer has it: its exit notice came before this reply, or never will.
        self.is_end_asked = False
        self.runner.on_lost(self)

    # Findings of the monitors about a candidate

    def judge(self, condition: Condition) -> None:
        """Take the condition that the probes found it in."""
        self.condition = condition
        self.runner.on_candidate_judged()

    def tell_unready(self, reason: str) -> None:
        """It has had its time to become ready."""
        self.runner.on_candidate_failed(f"not ready: {reason}")

    def end_as_failure(self, cause: str, reason: str, grace: float | None = None) -> bool:
        """It is no good."""
        self.runner.on_candidate_failed(reason)
        return True

    def remedy(self, cause: str, recovery: RecoverySpec, reason: str) -> None:
        """Nothing: what the service declares about a cause is for the run in its place."""
