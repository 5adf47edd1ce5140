"""The keeper's table as the supervisor can rebuild it: its runs, and spare descriptors.

When the keeper dies, the supervisor turns into a keeper and goes on with this table (the prose in
`keeper.handover` tells how). Reads every message that passes the link and remembers what a keeper
would know of it. Owns the spare copies of descriptors, closes each when its run is over, and never
reads one. Sends nothing.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import EndState, KeeperFacts, Notice

Message = dict[str, Any]
OnReply = Callable[[Message], None]

_NOT_FACTS = frozenset(
    {"do", "id", "kept", "argv", "env", "environ", "cwd", "user", "rlimits", "umask", "nice"}
)
_OWN_DESCRIPTORS = 64
_REPLY_FIELDS = frozenset({"ok", "id", "parts", "fds"})
_RUN_DEFAULTS: Message = {
    "kind": "service", "paused": False, "ending": False, "cgroup": None, "lease": None,
    "hidden": False, "cols": None, "rows": None,
}  # fmt: skip


class Succession:
    """What a keeper that takes over from here would go on with."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.runs: dict[str, Message] = {}
        self.held: dict[str, int] = {}
        self._spares: dict[str, dict[str, int]] = {}
        self._began: dict[str, float] = {}
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._room = limit - min(_OWN_DESCRIPTORS, limit // 4)
        self._ends: dict[str, _End] = {}
        self._asked: dict[str, Message] = {}
        """Spawn requests without a reply, by run."""
        self._gaps: set[str] = set()
        """Services whose output cannot be recorded now. A successor says that some is lost."""

    def begin(self, facts: KeeperFacts) -> None:
        """Take over the runs and exits in the keeper's answer to hello."""
        now = self._clock()
        for run in facts.get("runs") or ():
            self.runs[run["run_id"]] = {**run}
            self._began[run["run_id"]] = now - (run.get("age") or 0.0)
            if end := run.get("end"):
                self._ends[run["run_id"]] = _End.of(end, now)
            if run.get("is_within_gap"):
                self._gaps.add(run["service"])
        for ended in facts.get("exits") or ():
            if ended["run_id"] in self.runs:
                self.runs[ended["run_id"]]["exit"] = ended

    def on_request(self, message: Message) -> OnReply | None:
        """Remember a request; returns what is to be called with its reply, if that matters."""
        if message["do"] == "end" and message.get("run_id") in self.runs:
            self._note_request(message)
            return self._on_end_reply(message["run_id"])
        if message["do"] not in ("spawn", "adopt"):
            self._note_request(message)
            return None
        if message["do"] == "spawn":
            self._asked[message["run_id"]] = _facts_of(message)

        def on_reply(reply: Message) -> None:
            self._asked.pop(message["run_id"], None)
            if reply.get("ok"):
                self._on_begun(message, reply)

        return on_reply

    def _on_end_reply(self, run_id: str) -> OnReply:
        def on_reply(reply: Message) -> None:
            # Without a reply nobody knows whether the signal was sent. A successor sends it.
            if reply.get("ok") and (end := self._ends.get(run_id)) is not None:
                end.is_signalled = True

        return on_reply

    def _within_room(self, spares: dict[str, int]) -> dict[str, int]:
        """The spares, or none if few descriptors are left: our own use comes first."""
        if not spares or max(spares.values()) < self._room:
            return spares
        close_all(list(spares.values()))
        return {}

    def on_notice(self, message: Notice, fds: list[int]) -> None:
        match message["notice"]:
            case "spare":
                self._drop_spares(message["run_id"])
                spares = dict(zip(message["parts"], fds, strict=False))
                self._spares[message["run_id"]] = self._within_room(spares)
            case "held" if fds:
                name = message["name"]
                if name in self.held:
                    os.close(self.held[name])
                self.held[name] = fds[0]
            case "gap" if message.get("state") == "begin":
                self._gaps.add(message["service"])
            case "gap":
                self._gaps.discard(message["service"])
            case "exit" if message.get("empty", True):
                self._drop_run(message["run_id"])
            case "exit" if message["run_id"] in self.runs:
                facts = {key: value for key, value in message.items() if key != "notice"}
                self.runs[message["run_id"]]["exit"] = facts
                self._on_leftovers(message["run_id"])
            case "ended" if message.get("empty", True):
                self._drop_run(message["run_id"])
            case _:
                close_all(fds)

    def channel_of(self, run_id: str) -> tuple[int, int] | None:
        """Our copies of the two ends of a run's channel: its input, and its output."""
        spares = self._spares.get(run_id, {})
        if "channel_in" in spares and "channel_out" in spares:
            return spares["channel_in"], spares["channel_out"]
        return None

    def table(self) -> list[Message]:
        """The runs as entries of a handover's table."""
        now = self._clock()
        return [
            {
                **run,
                "age": now - self._began.get(run_id, now),
                "began": self._began.get(run_id, now),
                "parts": self._spares.get(run_id, {}),
                "is_within_gap": run.get("service") in self._gaps,
                "end": self._ends[run_id].facts(now) if run_id in self._ends else None,
            }
            for run_id, run in self.runs.items()
        ]

    def pending(self) -> list[Message]:
        """Spawn requests that the keeper has not answered: nobody knows whether they began."""
        return list(self._asked.values())

    def _note_request(self, message: Message) -> None:
        run_id = message.get("run_id")
        if message["do"] == "end" and run_id in self._asked:
            # The keeper has not said that it began. A successor that finds it ends it.
            asked = self._asked[run_id]
            asked["is_end_asked"] = True
            asked["end"] = {**asked["stop"], **_given(message, "signal", "grace")}
        if run_id not in self.runs:
            return
        run = self.runs[run_id]
        match message["do"]:
            case "pause" | "resume":
                run["paused"] = message["do"] == "pause"
            case "end":
                run["ending"] = run["is_end_asked"] = True
                run["paused"] = False
                asked = {**run["stop"], **_given(message, "signal", "grace")}
                self._end_by(run_id, asked, self._clock())
            case "lease":
                run["lease"] = _given(message, "seconds", "kind")
            case "resize":
                run["cols"], run["rows"] = message["cols"], message["rows"]
            case "write" if message.get("eof") and "stdin" in self._spares.get(run_id, {}):
                # An open spare copy would hide the end of input from the service.
                os.close(self._spares[run_id].pop("stdin"))
            case _:
                pass

    def _end_by(self, run_id: str, asked: Any, now: float) -> _End:
        """The first request decides the signal. Later ones can only shorten the grace."""
        end = self._ends.setdefault(run_id, _End.of(asked, now))
        end.deadline = min(end.deadline, now + float(asked["grace"]))
        return end

    def _on_leftovers(self, run_id: str) -> None:
        """The main process is gone, and the keeper has signalled the processes that it left."""
        now, stop = self._clock(), self.runs[run_id].get("stop") or {}
        if run_id not in self._ends and {"signal", "grace"} <= stop.keys():
            self._end_by(run_id, stop, now).is_signalled = True
        if run_id in self._ends:
            self._ends[run_id].rest_at = now

    def _on_begun(self, request: Message, reply: Message) -> None:
        """A `spawn` or `adopt` succeeded, and its reply brings the spares. The pipes of a task
        belong to its caller."""
        if request.get("kind") == "task":
            return
        run_id = request["run_id"]
        spares = reply.pop("spares", {})
        facts = _facts_of(request)
        known = {key: value for key, value in reply.items() if key not in _REPLY_FIELDS}
        own = {
            "has_stdin": bool({"stdin", "terminal"} & spares.keys()),
            "adopted": request["do"] == "adopt",
        }
        self.runs[run_id] = {**_RUN_DEFAULTS, **facts, **own, **known}
        self._spares[run_id] = self._within_room(spares)
        self._began[run_id] = self._clock() - (reply.get("age") or 0.0)

    def _drop_run(self, run_id: str) -> None:
        self.runs.pop(run_id, None)
        self._began.pop(run_id, None)
        self._ends.pop(run_id, None)
        self._drop_spares(run_id)

    def _drop_spares(self, run_id: str) -> None:
        close_all(list(self._spares.pop(run_id, {}).values()))


class _End:
    """A kill chain that is under way, on monotonic time."""

    __slots__ = ("began", "deadline", "is_signalled", "rest_at", "signal")

    def __init__(self, signal: int, began: float, deadline: float, *, is_signalled: bool) -> None:
        self.signal = signal
        self.began = began
        self.deadline = deadline
        self.is_signalled = is_signalled
        self.rest_at: float | None = None

    @staticmethod
    def of(facts: EndState, now: float) -> _End:
        return _End(
            int(facts["signal"]),
            now - float(facts.get("ago") or 0.0),
            now + float(facts["grace"]),
            is_signalled=bool(facts.get("signalled")),
        )

    def facts(self, now: float) -> EndState:
        facts: EndState = {
            "signal": self.signal,
            "grace": max(0.0, self.deadline - now),
            "signalled": self.is_signalled,
            "ago": now - self.began,
        }
        if self.rest_at is not None:
            facts["rest_ago"] = now - self.rest_at
        return facts


def _facts_of(request: Message) -> Message:
    return {key: value for key, value in request.items() if key not in _NOT_FACTS}


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _given(message: Message, *keys: str) -> Message:
    return {key: message[key] for key in keys if message.get(key) is not None}
