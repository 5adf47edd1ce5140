"""A real Holdfast for a test: own project, own state, real processes, and a sure end."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.client.connection import Connection
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.logbook.reader import Reader
from holdfast.system import run_marks

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = sys.executable
SomeHold = TypeVar("SomeHold", bound="Hold")


def program(name: str, *args: object) -> list[str]:
    """The argv of a test program that starts quickly."""
    return [PYTHON, "-I", "-S", str(PROGRAMS / name), *map(str, args)]


def quick(command: Any = None, **fields: Any) -> dict[str, Any]:
    """A declaration whose start, restart and stop take little of a test's time."""
    return {
        "command": command or ["sleep", "1000"],
        "start_seconds": 0.1,
        "restart": {"delay": "100ms", "max_delay": "200ms"},
        "stop": {"grace": "500ms"},
        **fields,
    }


def wait_for(probe: Callable[..., Any], seconds: float = 30.0, what: str = "") -> Any:
    """The probe's first true answer; fails after the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or probe} (last: {answer!r})")
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether the process runs: neither gone nor a zombie."""
    if not os.path.isdir("/proc/self"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def forbid_marks() -> None:
    """For the `preexec_fn` of a keeper: a limit that leaves no room for the marks of runs."""
    resource.setrlimit(run_marks.RLIMIT, (200_000, 200_000))


class Hold:
    """One project with its Holdfast; use as a context manager."""

    def __init__(self, **environ: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hf-"))
        self.project = self.folder / "project"
        self.project.mkdir()
        self.environ = {
            **os.environ,
            "XDG_STATE_HOME": str(self.folder / "s"),
            "XDG_RUNTIME_DIR": str(self.folder / "r"),
            "HOME": str(self.folder),
            "NO_COLOR": "1",
            "HOLDFAST_TCP": "off",
            "HOLDFAST_HTTP": "off",
            **environ,
        }
        for name in ("s", "r"):
            (self.folder / name).mkdir(mode=0o700)
        self._connection: Connection | None = None
        self._keepers: set[int] = set()

    def __enter__(self: SomeHold) -> SomeHold:  # noqa: PYI019
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, config: dict[str, Any], name: str = "holdfast.json") -> Path:
        path = self.project / name
        path.write_text(json.dumps(config, indent=1))
        return path

    def services(self, **services: Any) -> None:
        """Declare services; a list is a command, a dict is the whole declaration."""
        self.write(
            {
                "services": {
                    name.replace("_", "-"): {"command": spec} if isinstance(spec, list) else spec
                    for name, spec in services.items()
                }
            }
        )

    def command(self, *args: object) -> list[str]:
        return [PYTHON, "-m", "holdfast", *map(str, args)]

    def cli(
        self, *args: object, expect: int | None = 0, timeout: float = 60.0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*args),
            cwd=options.pop("cwd", self.project),
            env={**self.environ, **options.pop("environ", {})},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            **options,
        )
        if expect is not None and done.returncode != expect:
            raise AssertionError(
                f"holdfast {' '.join(map(str, args))} exited {done.returncode}\n"
                f"--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}\n{self.own_logs()}"
            )
        return done

    def json(self, *args: object, **options: Any) -> Any:
        return json.loads(self.cli(*args, "--json", **options).stdout)

    def up(self, *services: str, **options: Any) -> None:
        self.cli("up", "-d", *services, **options)
        self._keepers.add(self.keeper_pid)

    @property
    def state(self) -> Path:
        if own := self.environ.get("HOLDFAST_STATE_DIR"):
            return Path(own)
        found = list((self.folder / "s" / "holdfast").glob(f"{self.project.name}-*"))
        assert len(found) == 1, found
        return found[0]

    @property
    def runtime(self) -> Path:
        found = list((self.folder / "r" / "holdfast").iterdir())
        assert len(found) == 1, found
        return found[0]

    @property
    def keeper_pid(self) -> int:
        return int(json.loads((self.state / "keeper.json").read_text())["pid"])

    @property
    def supervisor_pid(self) -> int:
        return int(self.status()["supervisor"]["pid"])

    def kill_supervisor(self) -> None:
        """kill -9, and the next one; a long back-off is cut short, as `up` would."""
        old = self.supervisor_pid
        kill_9(old)

        def is_relaunched() -> bool:
            with closing(KeeperConnection(str(self.runtime / "keeper.sock"))) as keeper:
                told = keeper.facts["supervisor"]
                if (told["next_in"] or 0.0) > 0.5:
                    told = keeper.ask("supervise", on=True)["supervisor"]
                return told["pid"] not in (None, old)

        wait_for(is_relaunched, what="the next supervisor")
        wait_for(lambda: self.supervisor_pid != old)

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """Over the line door, on a connection that is renewed when the supervisor is."""
        for attempt in (1, 2, 3):
            try:
                if self._connection is None:
                    self._connection = Connection(str(self.runtime / "line.sock"))
                answer: dict[str, Any] = self._connection.ask(command, **fields)
                return answer
            except OSError:
                self._disconnect()
                if attempt == 3:
                    raise
        raise AssertionError("unreachable")

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def status(self) -> dict[str, Any]:
        return self.ask("status")

    def service(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.status()["services"][name]
        return found

    def wait_status(self, name: str, *wanted: str, seconds: float = 30.0) -> dict[str, Any]:
        found: dict[str, Any] = wait_for(
            lambda: (s := self.service(name))["status"] in wanted and s,
            seconds,
            f"{name} to be {' or '.join(wanted)}",
        )
        return found

    def raw(self, name: str, *options: object) -> bytes:
        """What a service has printed; with options, as `logs --raw` tells it."""
        if not options:
            return b"".join(Reader(str(self.state / "logs"), name).raw())
        done = subprocess.run(
            self.command("logs", name, "--raw", *options),
            cwd=self.project, env=self.environ, capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def own_logs(self) -> str:
        text = ""
        for path in self.folder.glob("s/holdfast/*/*.err"):
            text += f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}\n"
        for path in self.folder.glob("s/holdfast/*/holdfast.log"):
            text += f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}\n"
        return text

    def marked_pids(self) -> list[int]:
        """Everything alive that was started below this Holdfast, our own processes included."""
        mark = f"XDG_STATE_HOME={self.folder / 's'}".encode()
        found = []
        for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else []:
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                environ = Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if mark in environ.split(b"\0") and is_alive(int(entry)):
                found.append(int(entry))
        return found

    def close(self) -> None:
        self._disconnect()
        try:
            if any((self.folder / "s").glob("holdfast/*/keeper.json")):
                self.cli("down", "--now", expect=None, timeout=30)
        finally:
            left = self.marked_pids()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            logs = self.own_logs() if left else ""
            shutil.rmtree(self.folder, ignore_errors=True)
            assert not left, f"processes left after down: {left}\n{logs}"


@contextmanager
def started(argv: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the test's own, ended at the end; its output can be read."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[bytes], wanted: bytes, seconds: float = 30.0) -> bytes:
    """What the process printed, up to and with the wanted bytes."""
    assert process.stdout is not None
    seen, deadline = b"", time.monotonic() + seconds
    while wanted not in seen:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(process.stdout.fileno(), 65536) if ready else b""
        assert piece, f"{wanted!r} did not come; got {seen!r}"
        seen += piece
    return seen


def kill_9(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
