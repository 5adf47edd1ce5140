"""What a successor of the keeper would have to know: its runs, and spare descriptors.

Watches what passes over the link and remembers it. Owns the spare copies and closes each
when its run is over; never reads one. Speaks to nobody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Then = Callable[[Message], None]

_NOT_FACTS = frozenset(
    {"do", "id", "kept", "argv", "env", "environ", "cwd", "user", "rlimits", "umask", "nice"}
)
_REPLY_FIELDS = frozenset({"ok", "id", "parts", "fds"})
_RUN_DEFAULTS: Message = {
    "kind": "service", "paused": False, "ending": False, "cgroup": None, "lease": None,
    "hidden": False, "cols": None, "rows": None,
}  # fmt: skip


class Succession:
    """The keeper's table as far as the supervisor can rebuild it."""

    def __init__(self) -> None:
        self.runs: dict[str, Message] = {}
        self.held: dict[str, int] = {}
        self._spares: dict[str, dict[str, int]] = {}
        self._began: dict[str, float] = {}

    def begin(self, facts: Message) -> None:
        """Take over what the keeper's answer to hello lists."""
        now = time.monotonic()
        for run in facts.get("runs") or ():
            self.runs[run["run_id"]] = dict(run)
            self._began[run["run_id"]] = now - (run.get("age") or 0.0)
        for ended in facts.get("exits") or ():
            if ended["run_id"] in self.runs:
                self.runs[ended["run_id"]]["exit"] = ended

    def noting(self, message: Message, then: Then) -> Then:
        """Remember what matters of a request, and of its reply before `then` gets it."""
        if message["do"] not in ("spawn", "adopt"):
            self._on_request(message)
            return then

        def begun(reply: Message) -> None:
            if reply.get("ok"):
                self._on_begun(message, reply)
            then(reply)

        return begun

    def on_notice(self, message: Message, fds: list[int]) -> None:
        match message["notice"]:
            case "spare":
                self._drop_spares(message["run_id"])
                self._spares[message["run_id"]] = dict(zip(message["parts"], fds, strict=False))
            case "held":
                name = message["name"]
                if name in self.held:
                    os.close(self.held[name])
                self.held[name] = fds[0]
            case "exit" if message.get("empty", True):
                self._drop_run(message["run_id"])
            case "exit" if message["run_id"] in self.runs:
                facts = {key: value for key, value in message.items() if key != "notice"}
                self.runs[message["run_id"]]["exit"] = facts
            case "ended" if message.get("empty", True):
                self._drop_run(message["run_id"])
            case _:
                close_all(fds)

    def table(self) -> list[Message]:
        """The runs that a new keeper can go on with."""
        now = time.monotonic()
        return [
            {**run, "age": now - self._began.get(run_id, now), "parts": self._spares[run_id]}
            for run_id, run in self.runs.items()
            if run_id in self._spares
        ]

    def _on_request(self, message: Message) -> None:
        """Something was asked of a run."""
        run_id = message.get("run_id")
        if run_id not in self.runs:
            return
        run = self.runs[run_id]
        match message["do"]:
            case "pause" | "resume":
                run["paused"] = message["do"] == "pause"
            case "end":
                run["ending"] = run["is_end_asked"] = True
                run["end"] = {**run["stop"], **_given(message, "signal", "grace")}
            case "lease":
                run["lease"] = _given(message, "seconds", "kind")
            case "resize":
                run["cols"], run["rows"] = message["cols"], message["rows"]
            case "write" if message.get("eof") and "stdin" in self._spares.get(run_id, {}):
                # A spare copy left open would hide the end of input from the service.
                os.close(self._spares[run_id].pop("stdin"))
            case _:
                pass

    def _on_begun(self, request: Message, reply: Message) -> None:
        """A `spawn` or `adopt` succeeded; `reply` brings the spares. A task's pipes are its
        caller's."""
        if request.get("kind") == "task":
            return
        run_id = request["run_id"]
        spares = reply.pop("spares", {})
        facts = {key: value for key, value in request.items() if key not in _NOT_FACTS}
        known = {key: value for key, value in reply.items() if key not in _REPLY_FIELDS}
        own = {
            "has_stdin": bool({"stdin", "terminal"} & spares.keys()),
            "adopted": request["do"] == "adopt",
        }
        self.runs[run_id] = {**_RUN_DEFAULTS, **facts, **own, **known}
        self._spares[run_id] = spares
        self._began[run_id] = time.monotonic() - (reply.get("age") or 0.0)

    def _drop_run(self, run_id: str) -> None:
        self.runs.pop(run_id, None)
        self._began.pop(run_id, None)
        self._drop_spares(run_id)

    def _drop_spares(self, run_id: str) -> None:
        close_all(list(self._spares.pop(run_id, {}).values()))


def close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _given(message: Message, *keys: str) -> Message:
    return {key: message[key] for key in keys if message.get(key) is not None}
