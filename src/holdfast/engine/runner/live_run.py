"""The values of one run whose processes exist, and how the run before it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters.metrics.usage import Usage
from holdfast.adapters.store.state_tables import OpenRun
from holdfast.rules.plan import Trace

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import ExitFacts


class LiveRun:
    """The run whose processes exist, or are being created."""

    __slots__ = (
        "adopted", "enforced", "is_empty", "is_found", "log_bytes", "main_gone", "number", "pid",
        "run_id", "start_time", "started_at", "started_mono", "trace", "usage",
    )  # fmt: skip

    def __init__(self, run_id: str, number: int, started_at: float, started_mono: float) -> None:
        self.run_id = run_id
        self.number = number
        self.started_at = started_at
        self.started_mono = started_mono
        self.start_time: str | None = None
        self.pid: int | None = None
        self.main_gone = False
        self.is_empty = False
        self.adopted = False
        self.is_found = False
        """Whether an earlier supervisor started it, or it was adopted."""
        self.log_bytes = 0
        self.enforced: frozenset[str] = frozenset()
        """Limits that the kernel holds it to: memory, cpu, processes."""
        self.usage: Usage | None = None
        """Its use of resources when it was last measured."""
        self.trace: Trace | None = None
        """A digest of the specification it was started with, once that was asked for."""

    @classmethod
    def of(cls, run: Mapping[str, Any], now_mono: float) -> LiveRun:
        """A run as the keeper lists it (`RunFacts`), or describes it when it is adopted."""
        live = cls(
            run["run_id"],
            run.get("number") or 0,
            run.get("started_at") or 0.0,
            now_mono - (run.get("age") or 0.0),
        )
        live.pid = run.get("pid")
        live.start_time = run.get("start_time")
        live.is_found = True
        live.adopted = bool(run.get("adopted"))
        live.log_bytes = run.get("log_bytes") or 0
        live.enforced = frozenset(run.get("enforced") or ())
        return live

    @classmethod
    def of_exit(cls, facts: ExitFacts, now_mono: float) -> LiveRun:
        """A run whose exit the keeper has journalled, as it was before that exit."""
        started_mono = now_mono - (facts.get("seconds") or 0.0)
        started_at = facts.get("started_at") or 0.0
        live = cls(facts["run_id"], facts.get("number") or 0, started_at, started_mono)
        live.pid = facts.get("pid")
        live.is_found = True
        live.log_bytes = facts.get("log_bytes") or 0
        return live

    @property
    def is_up(self) -> bool:
        """Whether its main process is there."""
        return self.pid is not None and not self.main_gone

    def as_open(self, service: str, boot_id: str) -> OpenRun:
        return OpenRun(
            self.run_id, service, self.number, self.pid or 0, self.start_time, boot_id,
            self.started_at,
        )  # fmt: skip

    def unknown_exit(self, service: str, ended_at: float, now_mono: float) -> ExitFacts:
        """The exit of a run that the keeper does not know any more."""
        return {
            "run_id": self.run_id,
            "service": service,
            "number": self.number,
            "pid": self.pid,
            "code": None,
            "signal": None,
            "unknown": True,
            "started_at": self.started_at,
            "ended_at": ended_at,
            "seconds": now_mono - self.started_mono,
            "log_bytes": self.log_bytes,
            "empty": True,
        }


class LastExit(msgspec.Struct, frozen=True):
    """How the newest finished run ended."""

    code: int | None = None
    signal: str | None = None
    seconds: float | None = None
    log_bytes: int = 0
    cpu: tuple[float, float] | None = None
    """User and system seconds, with the children it waited for; not remembered."""
