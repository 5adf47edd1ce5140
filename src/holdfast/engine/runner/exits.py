"""Understands and records an exit that the keeper reports, in words and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.engine.runner.environment import HistoryRecorder
from holdfast.engine.runner.live_run import LastExit
from holdfast.rules.lifecycle import restart as restarts
from holdfast.rules.lifecycle.restart import Ending
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import signal_name
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import ErrorType

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import ExitFacts

_NOT_OUR_CHILD = "it was not a child of the keeper, and the kernel does not tell"


class Exit(msgspec.Struct, frozen=True):
    """How a run ended: for the rules, for the status and for people."""

    ending: Ending
    last: LastExit
    reason: str


def understand(spec: ServiceSpec, facts: ExitFacts, why: str | None = None) -> Exit:
    """Turn the keeper's facts about an exit into values. `why`: why its code is unknown."""
    number = facts.get("signal")
    unknown = (why or _NOT_OUR_CHILD) if facts.get("unknown") else None
    seconds = facts.get("seconds")
    # An unknown duration is no reason to call the exit a failed start.
    lived = spec.start_seconds if seconds is None else seconds
    oom = restarts.OUT_OF_MEMORY if facts.get("oom_kills") and number else None
    ending = Ending(lived, facts.get("code"), number, unknown, cause=oom)
    reason = restarts.reason_of(spec, ending)
    if facts.get("cause"):
        reason = f"its {facts['cause']} ran out; {reason}"
    name = signal_name(number) if number else None
    rusage = facts.get("rusage")
    cpu = (rusage["user"], rusage["system"]) if rusage else None
    last = LastExit(ending.code, name, seconds, facts.get("log_bytes") or 0, cpu)
    return Exit(ending, last, reason)


def was_asked_for(facts: ExitFacts) -> bool:
    """Whether the run ended because we asked for it, so that its exit is no failure."""
    return bool(facts.get("is_end_asked")) and not facts.get("cause")


def record(
    recorder: HistoryRecorder, facts: ExitFacts, exit_: Exit, error: ErrorType | None
) -> None:
    """Put an exit into the history of runs, and publish it as an event."""
    error_type = error.value if error is not None else None
    recorder.run_ended({**facts, "error_type": error_type}, exit_.last.signal, exit_.reason)
    recorder.event(
        EventKind.EXIT,
        facts["service"],
        facts["run_id"],
        code=exit_.ending.code,
        signal=exit_.last.signal,
        unknown=exit_.ending.unknown is not None,
        reason=exit_.reason,
        seconds=facts.get("seconds"),
        pid=facts.get("pid"),
        number=facts.get("number"),
        rusage=facts.get("rusage"),
        error_type=error_type,
    )
