"""The supervisors that are measured: Holdfast, and supervisord from the package index.

Standard library only, because the shared harness loads `Holdfast` into its own environment.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SUPERVISORD = ROOT / ".scratch" / "bench-venv" / "bin"


@dataclass
class Service:
    """What a case wants to be run; always with its output recorded."""

    name: str
    argv: list[str]
    restart: bool = False


class Peer:
    """What every case needs of a supervisor."""

    name = ""

    def __init__(self, work: Any, prefix: Any, env: dict[str, str]) -> None:
        self.work, self.prefix, self.env = Path(work), prefix, env
        self.services: list[Any] = []
        self.daemon: Any = None

    def popen(self, argv: list[Any], **options: Any) -> subprocess.Popen[bytes]:
        with open(self.work / "daemon.out", "ab") as output:
            return subprocess.Popen(
                [str(word) for word in argv],
                cwd=self.work,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                **options,
            )

    def configure(self, services: list[Any], tune: Any = None) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def own_pids(self) -> list[int]:
        raise NotImplementedError

    def control(
        self, what: str, n: int, interval: float = 0, name: str | None = None
    ) -> list[float]:
        """Latencies in seconds of n status requests over one open connection."""
        latencies = []
        for _ in range(n):
            begun = time.perf_counter()
            self.status(name if what == "one" else None)
            latencies.append(time.perf_counter() - begun)
            if interval:
                time.sleep(max(0.0, interval - latencies[-1]))
        return latencies

    def status(self, name: str | None) -> Any:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it answers a status request by now."""
        try:
            return bool(self.status(None))
        except OSError:
            return False

    def stop_all(self) -> Any:
        raise NotImplementedError

    def stop(self, name: str) -> Any:
        raise NotImplementedError

    def cli_status(self) -> list[Any]:
        raise NotImplementedError

    def log_files(self, name: str) -> list[Path]:
        raise NotImplementedError

    def log_bytes(self, name: str) -> int:
        return sum(path.stat().st_size for path in self.log_files(name) if path.exists())

    def close(self) -> None:
        if self.daemon is not None:
            try:
                self.daemon.wait(2)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()


class Holdfast(Peer):
    """Rotation off, no restart delay, no wait for a start to prove itself."""

    name = "holdfast"
    command = ROOT / ".venv" / "bin" / "holdfast"

    def __init__(self, work: Any, prefix: Any, env: dict[str, str]) -> None:
        super().__init__(work, prefix, env)
        self.state = self.work / "state"
        self._line: socket.socket | None = None
        self._last_id = 0

    def configure(self, services: list[Any], tune: Any = None) -> None:
        self.services = services
        declared = {
            service.name: {
                "command": [str(word) for word in service.argv],
                "restart_policy": "always" if service.restart else "never",
                "restart": {"delay": 0, "jitter": 0, "max_restarts": "unlimited"},
                "start_seconds": 0,
                "start_retries": 0,
                "log": {"max_size": "4000MB", "total_size": "400GB"},
            }
            for service in services
        }
        (self.work / "holdfast.json").write_text(json.dumps({"services": declared}))

    def start(self) -> None:
        self.disconnect()
        self.daemon = self.popen([self.command, "up", "-d", "--no-wait", "--state-dir", self.state])

    def disconnect(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def ask(self, command: str, **fields: Any) -> Any:
        """Plain JSON lines over the Unix socket, kept open."""
        if self._line is None:
            line = socket.socket(socket.AF_UNIX)
            line.settimeout(60)
            try:
                line.connect(str(self.state / "run" / "line.sock"))
            except OSError:
                line.close()
                raise
            self._line = line
        self._last_id += 1
        request = json.dumps({"id": self._last_id, "command": command, **fields})
        try:
            self._line.sendall(request.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                piece = self._line.recv(1 << 20)
                if not piece:
                    raise ConnectionResetError("the supervisor went away")
                answer += piece
        except OSError:
            self.disconnect()
            raise
        return answer

    def result(self, command: str, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.ask(command, **fields))
        if not answer["ok"]:
            raise RuntimeError(answer["error"]["message"])
        found: dict[str, Any] = answer["result"]
        return found

    def status(self, name: str | None) -> Any:
        """Decoded, as a peer's library answers it."""
        return self.result("status", services=[name]) if name else self.result("status")

    def stop_all(self) -> Any:
        return self.result("stop")

    def stop(self, name: str) -> Any:
        return self.result("stop", services=[name])

    def keeper_pid(self) -> int:
        return int(json.loads((self.state / "keeper.json").read_text())["pid"])

    def daemon_pid(self) -> int:
        return int(self.result("status")["supervisor"]["pid"])

    def own_pids(self) -> list[int]:
        """Keeper and supervisor: both have the state folder on their command line."""
        wanted, found = os.fsencode(self.state), []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if wanted in words and b"up" not in words and b"status" not in words:
                    found.append(int(entry))
        return found

    def cli_status(self) -> list[Any]:
        return [self.command, "status", "--state-dir", self.state]

    def service(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.result("status", services=[name])["services"][name]
        return found

    def exit_code(self, name: str) -> int | None:
        code: int | None = self.service(name)["exit_code"]
        return code

    def log_path(self, name: str) -> Path:
        return self.state / "logs" / f"{name}.000001.out"

    def log_files(self, name: str) -> list[Path]:
        return [
            path
            for path in (self.state / "logs").glob(f"{name}.*")
            if path.suffix in (".out", ".err")
        ]

    def log_bytes(self, name: str) -> int:
        path = self.log_path(name)
        return path.stat().st_size if path.exists() else 0

    def close(self) -> None:
        self.disconnect()
        super().close()


class _UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over a Unix socket, kept open."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._open: http.client.HTTPConnection | None = None

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        if self._open is None:
            connection = http.client.HTTPConnection("localhost")
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(60)
            try:
                connection.sock.connect(self.path)
            except OSError:
                connection.close()
                raise
            self._open = connection
        return self._open


class Supervisord(Peer):
    """Rotation off, startsecs 0, standard error recorded with standard output."""

    name = "supervisord"

    def configure(self, services: list[Any], tune: Any = None) -> None:
        self.services = services
        self.socket = self.work / "s.sock"
        self.rpc: Any = None
        lines = [
            "[unix_http_server]",
            f"file={self.socket}",
            "[rpcinterface:supervisor]",
            "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
            "[supervisorctl]",
            f"serverurl=unix://{self.socket}",
            "[supervisord]",
            f"logfile={self.work}/supervisord.log",
            "logfile_maxbytes=0",
            f"pidfile={self.work}/supervisord.pid",
            "minfds=8192",
            "nodaemon=true",
            "silent=true",
        ]
        for service in services:
            lines += [
                f"[program:{service.name}]",
                "command=" + " ".join(str(word) for word in service.argv),
                f"autorestart={'true' if service.restart else 'false'}",
                "startsecs=0",
                "redirect_stderr=true",
                "stopasgroup=true",
                "killasgroup=true",
                "stdout_logfile_maxbytes=0",
                f"stdout_logfile={self.log_files(service.name)[0]}",
            ]
        (self.work / "supervisord.conf").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        self.daemon = self.popen(
            [SUPERVISORD / "supervisord", "-c", self.work / "supervisord.conf"]
        )

    def own_pids(self) -> list[int]:
        return [self.daemon.pid] if self.daemon else []

    def call(self) -> Any:
        if self.rpc is None:
            transport = _UnixTransport(str(self.socket))
            self.rpc = xmlrpc.client.ServerProxy("http://localhost", transport=transport).supervisor
        return self.rpc

    def status(self, name: str | None) -> Any:
        return self.call().getProcessInfo(name) if name else self.call().getAllProcessInfo()

    def stop_all(self) -> Any:
        return self.call().stopAllProcesses()

    def stop(self, name: str) -> Any:
        return self.call().stopProcess(name)

    def cli_status(self) -> list[Any]:
        return [SUPERVISORD / "supervisorctl", "-c", self.work / "supervisord.conf", "status"]

    def log_files(self, name: str) -> list[Path]:
        return [self.work / f"{name}.log"]
