"""A desk with real files, a real git and a real ripgrep: handlers as they are, no daemon."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import IO, Any, cast

from holdfast.adapters.files.roots import Roots
from holdfast.app.context import Context
from holdfast.app.idempotency import Idempotency
from holdfast.app.registry import handler_for
from holdfast.engine.git.checkpoints import CheckpointStore
from holdfast.engine.git.git import Git
from holdfast.engine.git.status_cache import StatusCache
from holdfast.engine.search import Ripgrep
from holdfast.engine.tasks import TAIL_BYTES, Task, TaskResult, Tasks
from holdfast.system.landlock import restrict
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.codec import command_from
from holdfast.vocabulary.specs.files import FilesSpec, RootSpec
from holdfast.vocabulary.specs.git import GitSpec
from holdfast.vocabulary.specs.settings import Settings

OWNER = Actor(Role.OWNER, "owner")


class LocalTasks(Tasks):
    """Runs tasks as children of the test."""

    def __init__(self) -> None:
        self.ran: list[Task] = []
        self.cancelled = 0

    async def run(self, task: Task) -> TaskResult:
        self.ran.append(task)
        confined, env = task.confinement, dict(task.env)
        held = {} if confined is None else {
            name: os.open(path, os.O_RDONLY) for name, path in confined.open.items()
        }  # fmt: skip
        env |= {name: f"/proc/self/fd/{folder}" for name, folder in held.items()}
        process = subprocess.Popen(  # noqa: ASYNC220
            task.argv,
            cwd=task.working_dir,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(held.values()),
            preexec_fn=None
            if confined is None
            else partial(restrict, confined.read, confined.write),
        )
        for folder in held.values():
            os.close(folder)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(None, _listen, process, task)
        except asyncio.CancelledError:
            self.cancelled += 1
            process.kill()
            raise


def _listen(process: subprocess.Popen[bytes], task: Task) -> TaskResult:
    tails = {"out": b"", "err": b""}

    def pump(name: str, stream: IO[bytes]) -> None:
        is_wanted = True
        while data := os.read(stream.fileno(), 65536):
            tails[name] = (tails[name] + data)[-TAIL_BYTES:]
            if is_wanted and task.on_output is not None and task.on_output(name, data):
                is_wanted = False
                process.kill()

    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        other = Thread(target=pump, args=("err", process.stderr))
        other.start()
        pump("out", process.stdout)
        other.join()
        code = process.wait()
    signal = None if code >= 0 else f"signal {-code}"
    return TaskResult(code if code >= 0 else None, signal, False, 0.0, tails["out"], tails["err"])


class _Files:
    def __init__(self, roots: Roots, project: str) -> None:
        self.roots = roots
        self.project = os.path.realpath(project)

    async def made_roots(self) -> Roots:
        return self.roots


class _Settings:
    def __init__(self, now: Settings) -> None:
        self.now = now


class _NoPolicies:
    advanced = None


class Desk:
    """What the handlers of files, search and git use of a context."""

    def __init__(
        self, folder: Path, *, git: GitSpec | None = None, deny: tuple[str, ...] = (), **roots: str
    ) -> None:
        """The configuration is `holdfast.yaml` of the project, as in life."""
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.state = str(folder / "state")
        named = roots or {"project": str(self.project)}
        self.spec = FilesSpec(
            roots=tuple(RootSpec(name=name, path=path, write=True) for name, path in named.items()),
            deny=deny,
        )
        self.settings = _Settings(Settings(files=self.spec, git=git or GitSpec()))
        self.files = _Files(Roots(self.spec, str(self.project), self._never), str(self.project))
        self.workspace = self
        self.authority = _NoPolicies()
        self.tasks = LocalTasks()
        self.logs = str(folder / "logs")
        self.searches = asyncio.Semaphore(4)
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.git = Git(self.tasks, self.in_thread, lambda: environ, lambda: self.settings.now.git)
        self.git_status = StatusCache(self.git, self.in_thread)
        self.idempotency = Idempotency(
            cast("Any", None), cast("Any", None)
        )  # no key is ever given here
        self.ripgrep = Ripgrep(self.tasks, self.in_thread, lambda: environ)
        self.checkpoints = CheckpointStore(
            self.git, self.in_thread, self.state, lambda: self.files.roots
        )

    def _never(self) -> list[tuple[str, str]]:
        config = str(self.project / "holdfast.yaml")
        return [(self.state, "state"), (config, "it is Holdfast's configuration")]

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)

    def ask(self, name: str, actor: Actor = OWNER, **fields: Any) -> Any:
        """The answer of a command's handler."""
        return asyncio.run(self.asking(name, actor, **fields))

    async def asking(self, name: str, actor: Actor = OWNER, **fields: Any) -> Any:
        command = command_from(name, fields)
        answer = handler_for(command, actor)(cast("Context", self), command)
        return await answer if isinstance(answer, Awaitable) else answer

    def run_git(self, *words: str, cwd: Path | None = None, may_fail: bool = False) -> str:
        """Git as a user would run it."""
        done = subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *words],
            cwd=cwd or self.project,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=not may_fail,
        )
        return done.stdout

    def repository(self, **files: str) -> Path:
        """A repository with one commit."""
        self.run_git("init", "--quiet", "--initial-branch=main", "--template=")
        self.run_git("config", "user.name", "Ann")
        self.run_git("config", "user.email", "ann@example.org")
        for name, text in (files or {"a.txt": "one\n"}).items():
            self.write(name, text)
        self.run_git("add", "--all")
        self.run_git("commit", "--quiet", "--message=first")
        return self.project

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def read(self, name: str) -> str:
        return (self.project / name).read_text()
