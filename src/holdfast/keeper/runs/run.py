"""One run: what was asked for, its present state, and the descriptors it owns.

A value in the keeper's table. It decides nothing and starts nothing.
"""

from __future__ import annotations

import os
import sys
import time
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from holdfast.keeper.processes.tree import Tree
    from holdfast.keeper.protocol.messages import (
        ExitFacts,
        LogSettings,
        ResourceUsage,
        RunEntry,
        RunFacts,
        SpawnReply,
        StopSettings,
        TreeReport,
    )
    from holdfast.keeper.recording.intake import Source
    from holdfast.keeper.recording.recorder import Recorder, Track
    from holdfast.keeper.runs.feed import Feed
    from holdfast.keeper.runs.kill_chain import KillChain
    from holdfast.keeper.runs.leases import RunLease

    Origin = Mapping[str, Any]
    """What a run is made from: a request to spawn or adopt it, or its entry in a table."""

DEFAULT_STOP_SIGNAL = 15
DEFAULT_GRACE_SECONDS = 5.0
DEFAULT_MAX_SIZE = 16 << 20
DEFAULT_TOTAL_SIZE = 256 << 20

_RUSAGE = (
    ("user", "ru_utime"),
    ("system", "ru_stime"),
    ("max_rss", "ru_maxrss"),
    ("minor_faults", "ru_minflt"),
    ("major_faults", "ru_majflt"),
    ("in_blocks", "ru_inblock"),
    ("out_blocks", "ru_oublock"),
    ("voluntary_switches", "ru_nvcsw"),
    ("involuntary_switches", "ru_nivcsw"),
)


class HeldRun:
    """A process that was started or adopted, until its tree is empty."""

    __slots__ = (
        "began",
        "cause",
        "cols",
        "died",
        "enforced",
        "exit",
        "feed",
        "hidden",
        "is_adopted",
        "is_child",
        "is_end_asked",
        "is_paused",
        "kill_chain",
        "kind",
        "lease",
        "log",
        "number",
        "parts",
        "pid",
        "recorder",
        "report",
        "rows",
        "run_id",
        "service",
        "sources",
        "started_at",
        "stop",
        "track",
        "tree",
    )

    def __init__(self, asked: Origin, tree: Tree) -> None:
        self.run_id: str = asked["run_id"]
        self.service: str = asked["service"]
        self.number = int(asked.get("number") or 0)
        self.kind: str = asked.get("kind") or "service"
        self.pid = tree.pid
        age = float(asked.get("age") or 0.0)
        self.started_at = float(asked.get("started_at") or time.time() - age)
        # On the monotonic clock, which goes on through `execv`. Of other keepers' runs only the age
        # is known.
        self.began: float = asked.get("began") or time.monotonic() - age
        self.cols: int | None = asked.get("cols")
        self.rows: int | None = asked.get("rows")
        self.hidden = bool(asked.get("hidden"))
        self.stop = stop_of(asked.get("stop"))
        self.log = log_of(asked.get("log"))
        self.enforced: list[str] = list(asked.get("enforced") or ())
        self.is_child = tree.is_child
        self.is_adopted = bool(asked.get("adopted"))
        self.is_paused = bool(asked.get("paused"))
        self.is_end_asked = False
        self.cause: str | None = asked.get("cause")
        # In the order of the protocol: out, err, stdin or terminal, then pidfd.
        self.parts: dict[str, int] = {}
        self.recorder: Recorder | None = None
        self.track: Track | None = None
        self.sources: list[Source] = []
        self.feed: Feed | None = None
        self.lease: RunLease | None = None
        self.kill_chain: KillChain | None = None
        self.died: tuple[float, float] | None = None
        """When it died, monotonic and wall time, if that was noticed before its status."""
        self.exit: ExitFacts | None = None
        self.report: TreeReport | None = None
        self.tree = tree

    @property
    def start_time(self) -> str:
        return self.tree.start_time

    @property
    def pidfd(self) -> int | None:
        return self.parts.get("pidfd")

    @property
    def log_bytes(self) -> int:
        return self.track.bytes if self.track is not None else 0

    def beginning(self) -> SpawnReply:
        """The reply to its `spawn`, without its start time and descriptors."""
        return {
            "ok": True,
            "pid": self.pid,
            "started_at": self.started_at,
            "enforced": self.enforced,
            "cgroup": self.tree.cgroup,
        }

    def facts(self) -> RunFacts:
        """The run as the protocol lists it."""
        return {
            "run_id": self.run_id,
            "service": self.service,
            "number": self.number,
            "kind": self.kind,
            "pid": self.pid,
            "start_time": self.start_time,
            "started_at": self.started_at,
            "age": time.monotonic() - self.began,
            "paused": self.is_paused,
            "ending": self.kill_chain is not None,
            "is_end_asked": self.is_end_asked,
            "end": self.kill_chain.state() if self.kill_chain is not None else None,
            "adopted": self.is_adopted,
            "exited": self.exit is not None,
            "cgroup": self.tree.cgroup,
            "enforced": self.enforced,
            "cols": self.cols,
            "rows": self.rows,
            "stop": self.stop,
            "log": self.log,
            "lease": self.lease.facts() if self.lease is not None else None,
            "has_stdin": "stdin" in self.parts or "terminal" in self.parts,
            "log_bytes": self.log_bytes,
            "is_within_gap": self.recorder is not None and self.recorder.is_within_gap,
            "hidden": self.hidden,
        }

    def entry(self) -> RunEntry:
        """The run as an entry of a handover's table."""
        entry: RunEntry = {**self.facts()}  # type: ignore[typeddict-item]
        entry["began"] = self.began
        entry["is_child"] = self.is_child
        entry["parts"] = self.parts
        entry["exit"] = self.exit
        entry["cause"] = self.cause
        if self.lease is not None:
            entry["lease"] = {**self.lease.facts(), "remaining": self.lease.remaining()}
        if self.feed is not None:
            data, ends = self.feed.state()
            entry["feed"] = (data.decode("latin-1"), ends)
        if self.kill_chain is not None:
            entry["end"] = self.kill_chain.state(is_whole=True)
        return entry

    def describe_exit(self, status: int | None, usage: Any, leftovers: Iterable[int]) -> ExitFacts:
        """Its exit as the protocol tells it; a status of None is unknown."""
        left = list(leftovers)
        died, ended_at = self.died or (time.monotonic(), time.time())
        outcome = None if status is None else os.waitstatus_to_exitcode(status)
        return {
            "run_id": self.run_id,
            "service": self.service,
            "number": self.number,
            "kind": self.kind,
            "pid": self.pid,
            "code": outcome if outcome is not None and outcome >= 0 else None,
            "signal": -outcome if outcome is not None and outcome < 0 else None,
            "unknown": outcome is None,
            "is_end_asked": self.is_end_asked,
            "cause": self.cause,
            "started_at": self.started_at,
            "ended_at": ended_at,
            "seconds": died - self.began,
            "rusage": _rusage(usage) if usage else None,
            "log_bytes": self.log_bytes,
            "empty": not left,
            "leftovers": left,
        }

    def close(self) -> None:
        """Close every descriptor."""
        if self.lease is not None:
            self.lease.pause()
            self.lease = None
        if self.feed is not None:
            self.feed.close()
            self.feed = None
        for source in self.sources:
            source.detach()
        self.sources.clear()
        for fd in self.parts.values():
            os.close(fd)
        self.parts.clear()


def _rusage(usage: Any) -> ResourceUsage:
    used: Any = {key: getattr(usage, name) for key, name in _RUSAGE}
    if sys.platform == "darwin":
        # macOS counts in bytes, other systems in KiB.
        used["max_rss"] //= 1024
    usage_facts: ResourceUsage = used
    return usage_facts


def stop_of(asked: StopSettings | None) -> StopSettings:
    """Complete settings of how a run is ended."""
    asked = asked or {}
    grace = asked.get("grace")
    return _shared_stop(
        int(asked.get("signal") or DEFAULT_STOP_SIGNAL),
        DEFAULT_GRACE_SECONDS if grace is None else float(grace),
        bool(asked.get("hangup")),
    )


def log_of(asked: LogSettings | None) -> LogSettings:
    """Complete settings of how much output is kept."""
    asked = asked or {}
    return _shared_log(
        int(asked.get("max_size") or DEFAULT_MAX_SIZE),
        int(asked.get("total_size") or DEFAULT_TOTAL_SIZE),
    )


# Runs with equal settings share one object, which nobody changes.


@lru_cache(maxsize=100, typed=True)
def _shared_stop(signal: int, grace: float, hangup: bool) -> StopSettings:
    stop: StopSettings = {"signal": signal, "grace": grace}
    return {**stop, "hangup": True} if hangup else stop


@lru_cache(maxsize=100, typed=True)
def _shared_log(max_size: int, total_size: int) -> LogSettings:
    return {"max_size": max_size, "total_size": total_size}
