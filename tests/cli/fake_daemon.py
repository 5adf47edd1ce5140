"""A daemon in a thread: speaks the line's frames, holds every request to the vocabulary."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from holdfast import __version__
from holdfast.system.places import find_places
from holdfast.vocabulary import codec
from holdfast.vocabulary.errors import HoldfastError, NoDaemon

Answer = dict[str, Any] | HoldfastError | Callable[[dict[str, Any]], Any]


def service(status: str = "running", **fields: Any) -> dict[str, Any]:
    """A service as `status` tells it."""
    is_live = status in ("running", "starting", "paused")
    return {
        "status": status,
        "desired": "running",
        "pid": 4242 if is_live else None,
        "uptime": 192.0 if is_live else None,
        "restart_count": 0,
        "run_id": "run-1",
        "run": 1,
        "exit_code": None,
        "signal": None,
        "reason": None,
        "duration": None,
        "log_bytes": 0,
        "since": 0.0,
        "terminal": False,
        "next_start_in": None,
        **fields,
    }


def outcome(what: str, **fields: Any) -> dict[str, Any]:
    return {"services": {"web": {"outcome": what, "status": "running", "pid": 4242, **fields}}}


def answers() -> dict[str, Answer]:
    """What the fake says unless a test says otherwise."""
    started = outcome("started")
    return {
        "hello": {
            "version": __version__,
            "protocol": 1,
            "pid": 11,
            "keeper_pid": 10,
            "keeper_version": __version__,
            "project": "/p",
            "state": "/s",
        },
        "status": {
            "supervisor": {
                "status": "running", "uptime": 5.0, "managed_services": 1, "pid": 11,
                "keeper_pid": 10, "version": __version__,
            },
            "services": {"web": service()},
        },
        "up": {**started, "added": ["web"], "changed": [], "removed": []},
        "run": {"service": "web", "outcome": started["services"]["web"]},
        "start": started,
        "stop": outcome("stopped"),
        "restart": outcome("restarted"),
        "pause": outcome("paused"),
        "resume": outcome("resumed"),
        "signal": outcome("signalled"),
        "remove": outcome("removed"),
        "adopt": outcome("adopted"),
        "ps": {
            "services": {
                "web": [
                    {"pid": 5, "ppid": 4, "name": "sleep", "command": "sleep 1", "state": "S"},
                    {"pid": 4, "ppid": 1, "name": "sh", "command": "sh -c x", "state": "S"},
                ]
            }
        },
        "wait": {"service": "web", "met": True, "status": "running", "seconds": 0.1},
        "runs": {
            "runs": [
                {
                    "run_id": "run-1", "service": "web", "number": 1, "pid": 9, "started_at": 1.0,
                    "ended_at": 2.0, "duration": 1.0, "exit_code": 3, "signal": None,
                    "unknown": False, "reason": None, "log_bytes": 2048, "rusage": None,
                }
            ]
        },
        "events": {
            "events": [
                {"seq": 7, "time": 1.0, "kind": "exit", "service": "web", "data": {"code": 1}}
            ],
            "last": 7,
        },
        "prune": {"deleted_bytes": 2048, "deleted_runs": 2, "services": ["web"]},
        "upgrade": {"message": ""},
        "shutdown": {"message": ""},
    }  # fmt: skip


class FakeDaemon:
    """Listens where the CLI would look for the daemon of a folder."""

    def __init__(self, folder: str) -> None:
        self.places = find_places(folder, os.environ)
        os.makedirs(self.places.runtime, exist_ok=True)
        os.makedirs(self.places.logs, exist_ok=True)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        """The key of each request, or None."""
        self.answers = answers()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.places.line_socket)
        self._socket.listen()
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def commands(self) -> list[str]:
        return [frame["command"] for frame in self.asked]

    def last(self, command: str) -> dict[str, Any]:
        """The newest request of this command, without its frame."""
        frame = [frame for frame in self.asked if frame["command"] == command][-1]
        return {name: value for name, value in frame.items() if name not in ("id", "command")}

    def close(self) -> None:
        self.hang_up()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)
        os.unlink(self.places.line_socket)

    def hang_up(self) -> None:
        """End all connections, as a supervisor that dies."""
        # A client reconnects at once; its new connection is left alone.
        clients, self._clients = self._clients, []
        for client in clients:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as lines:
            for line in lines:
                frame = json.loads(line)
                self.keys.append(frame.pop("key", None))  # no field of a command
                self.asked.append(frame)
                for reply in self._replies(frame):
                    try:
                        client.sendall(reply)
                    except OSError:
                        return

    def _replies(self, frame: dict[str, Any]) -> list[bytes]:
        request = frame["id"]
        fields = {name: value for name, value in frame.items() if name not in ("id", "command")}
        try:
            codec.command_from(frame["command"], fields)
            answer = self.answers.get(frame["command"], NoDaemon("the fake has no answer"))
            if callable(answer):
                answer = answer(fields)
            if isinstance(answer, HoldfastError):
                raise answer
        except HoldfastError as error:
            return [codec.failure(request, error)]
        if isinstance(answer, list):
            return [codec.item(request, item) for item in answer]
        return [codec.answer(request, answer)]
