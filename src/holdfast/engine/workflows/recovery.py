"""Acts on trouble of a service as its `recovery:` declares for the cause.

Monitors call `recover` for a live run; the runner itself runs the remedies when a run ended. Only
the runner changes a state.
"""

from __future__ import annotations

from holdfast.engine.runner.environment import HistoryRecorder
from holdfast.engine.runner.observers import MonitoredRun
from holdfast.engine.runner.runner import Runner
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.tasks import Tasks
from holdfast.engine.workflows.steps import CommandContext, CommandStep
from holdfast.engine.workflows.workflows import Procedure, WorkflowRunner
from holdfast.rules.lifecycle.recovery import ENDING_CAUSES, action_for
from holdfast.vocabulary.errors import HoldfastError, Refused
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.workflows import RECOVERY_SECONDS, RecoverySpec


def recover(runner: MonitoredRun, cause: str, reason: str) -> None:
    """Act on trouble that was found in a live run."""
    recovery = action_for(runner.declaration.spec, cause)
    # A failing start ends by itself or is ended; its recovery comes after its end.
    if recovery.action == "restart" or cause in ENDING_CAUSES:
        runner.end_as_failure(cause, reason)
    else:
        runner.remedy(cause, recovery, reason)


class RecoveryCommands:
    """Runs the commands of `recovery:`, one at a time for a service; each has an event."""

    def __init__(
        self,
        workflows: WorkflowRunner,
        tasks: Tasks,
        settings: CurrentSettings,
        recorder: HistoryRecorder,
    ) -> None:
        self._workflows = workflows
        self._tasks = tasks
        self._settings = settings
        self._recorder = recorder

    def run(self, runner: Runner, cause: str, recovery: RecoverySpec, reason: str) -> None:
        try:
            self._begin(runner, cause, recovery, reason)
        except HoldfastError as error:
            facts = {"cause": cause, "outcome": "skipped", "reason": error.message}
            what = recovery.command or "recovery"
            self._recorder.event(EventKind.COMMAND_FINISHED, runner.name, what=what, **facts)

    def _begin(self, runner: Runner, cause: str, recovery: RecoverySpec, reason: str) -> None:
        from holdfast.rules.authority.commands import permit_named
        from holdfast.rules.workflows import prepare_spec

        settings = self._settings.now
        spec = recovery.run
        if recovery.command is not None:
            verdict = permit_named(recovery.command, settings)
            if not verdict.is_allowed:
                raise Refused(verdict.reason)
            spec = settings.commands[recovery.command]
        assert spec is not None
        prepared = prepare_spec(spec, settings, spec.timeout or RECOVERY_SECONDS)
        told = {
            "HOLDFAST_SERVICE": runner.name,
            "HOLDFAST_CAUSE": cause,
            "HOLDFAST_REASON": reason,
        }
        step = CommandStep(self._tasks, prepared, CommandContext.of(runner), env=told)
        procedure = Procedure(
            name=f"recovery of {runner.name}",
            steps=[step],
            by="recovery",
            service=runner.name,
            key=f"recovery:{runner.name}",
            is_single=True,
            facts={"cause": cause},
        )
        self._workflows.begin(procedure)
