"""A keeper in a thread: speaks the control side of the keeper's protocol."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from typing import Any

from holdfast.system.places import Places


def run(service: str, **fields: Any) -> dict[str, Any]:
    return {
        "run_id": f"run-{service}", "service": service, "number": 1, "kind": "service",
        "pid": 4242, "started_at": 1.0, "age": 61.0, "paused": False, "ending": False,
        "adopted": False, "stop": {"signal": 15, "grace": 5.0}, "log_bytes": 3, "hidden": False,
        **fields,
    }  # fmt: skip


def exit_of(service: str, **fields: Any) -> dict[str, Any]:
    return {
        "run_id": f"run-{service}", "service": service, "number": 1, "kind": "service",
        "pid": 4242, "code": None, "signal": None, "unknown": False, "cause": None,
        "started_at": 1.0, "ended_at": 2.0, "seconds": 1.0, "log_bytes": 3,
        **fields,
    }  # fmt: skip


class FakeKeeper:
    """Holds the lock and answers on keeper.sock."""

    def __init__(self, places: Places, state: str = "backoff", failures: int = 5) -> None:
        os.makedirs(places.runtime, exist_ok=True)
        os.makedirs(places.logs, exist_ok=True)
        self.supervisor: dict[str, Any] = {
            "pid": None, "state": state, "failures": failures,
            "last_exit": {"code": 1, "signal": None, "at": 1.0},
            "last_error": "ImportError: broken", "since": 0.0, "next_in": 4.0,
        }  # fmt: skip
        self.runs = [run("web"), run("db")]
        self.exits: list[dict[str, Any]] = []
        self.words: list[dict[str, Any]] = []
        self._lock = open(os.path.join(places.state, "lock"), "w")  # noqa: SIM115
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._path = places.keeper_socket
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self._path)
        self._socket.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._release()
        self._thread.join(30)
        self._socket.close()
        if os.path.exists(self._path):
            os.unlink(self._path)

    def _release(self) -> None:
        if not self._lock.closed:
            self._lock.close()
            self._socket.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, client.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    self.words.append(request)
                    reply = {"id": request["id"], "ok": True, **self._answer(request)}
                    try:
                        client.sendall(json.dumps(reply).encode() + b"\n")
                    except OSError:
                        break
                    if request["do"] == "shutdown":
                        self._release()
                        return

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "hello" | "list":
                return {
                    "protocol": 1, "version": "0.1.0", "pid": 10, "runs": self.runs,
                    "exits": self.exits, "supervisor": self.supervisor, "host": {},
                }  # fmt: skip
            case "end":
                self.runs = [run for run in self.runs if run["run_id"] != request["run_id"]]
            case "supervise":
                self.supervisor["state"] = "running"
        return {}
