"""The backends of the configuration, and what was found of each on this machine.

A program is asked by tasks of the keeper; what it answered is kept until its file changes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping

from holdfast.adapters.backends.adapter import Adapter, Answer, Installed, ModelServer
from holdfast.adapters.backends.registry import adapter_for
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.tasks import Task, Tasks
from holdfast.vocabulary.agents import FailureClass
from holdfast.vocabulary.errors import NotFound
from holdfast.vocabulary.specs.backends import BackendSpec

ANSWER_SECONDS = 30.0


class Backends:
    """Knows every backend by name."""

    def __init__(
        self,
        tasks: Tasks,
        settings: CurrentSettings,
        environ: Callable[[], Mapping[str, str]],
        project: str,
    ) -> None:
        self._tasks = tasks
        self._settings = settings
        self._environ = environ
        self.project = project
        self._found: dict[str, tuple[object, Installed]] = {}
        """By name: what the finding depends on, and the finding."""

    @property
    def specs(self) -> Mapping[str, BackendSpec]:
        return self._settings.now.backends

    def get(self, name: str) -> BackendSpec:
        spec = self.specs.get(name)
        if spec is None:
            known = ", ".join(self.specs) or "none; `backends:` in holdfast.yaml names them"
            raise NotFound(f'no backend "{name[:100]}"', f"known: {known}")
        return spec

    def environ_of(self, spec: BackendSpec) -> dict[str, str]:
        """Return the environment that programs of a backend start from."""
        return {**self._environ(), **spec.env}

    def program_of(self, spec: BackendSpec) -> str | None:
        """Return the path of a backend's program; None if it is not installed."""
        word = spec.command[0] if spec.command else adapter_for(spec.kind).usual
        path = self.environ_of(spec).get("PATH", os.defpath)
        return shutil.which(os.path.expanduser(word), path=path) if word else None

    def known(self, name: str) -> Installed | None:
        """Return what was found when it was last probed."""
        found = self._found.get(name)
        return found[1] if found is not None else None

    async def probe(self, name: str) -> Installed:
        """Look what is installed, what it can do and whether it is logged in."""
        spec = self.get(name)
        adapter, program = adapter_for(spec.kind), self.program_of(spec)
        if isinstance(adapter, ModelServer):
            check = adapter.check(spec)
            answer = await self._run(spec, check.argv, check.env)
            installed = adapter.understand(spec, check.argv[0], {"check": answer})
            self._found[name] = (spec, installed)
            return installed
        if program is None:
            missing = self._missing(spec, adapter)
            self._found[name] = (spec, missing)
            return missing
        stat = os.stat(program)
        key = (spec, program, stat.st_mtime_ns, stat.st_size)
        before = self._found.get(name)
        if before is not None and before[0] == key and before[1].login != "no":
            return before[1]
        words = adapter.questions
        answers = await asyncio.gather(
            *(self._ask(spec, program, question) for question in words.values())
        )
        installed = adapter.understand(spec, program, dict(zip(words, answers, strict=True)))
        self._found[name] = (key, installed)
        return installed

    def _missing(self, spec: BackendSpec, adapter: Adapter) -> Installed:
        word = spec.command[0] if spec.command else adapter.usual or "its program"
        return Installed(
            failure=FailureClass.NOT_INSTALLED,
            sentence=f"{word} is not installed, or not on PATH",
            fix=adapter.install or f"install {word}, or name its path as `command`",
        )

    async def _ask(self, spec: BackendSpec, program: str, words: tuple[str, ...]) -> Answer:
        return await self._run(spec, (program, *spec.command[1:], *words), {})

    async def _run(self, spec: BackendSpec, argv: tuple[str, ...], env: dict[str, str]) -> Answer:
        task = Task(
            name="backend-probe",
            argv=argv,
            working_dir=spec.working_dir or self.project or "/",
            timeout=ANSWER_SECONDS,
            env={**self.environ_of(spec), **env, "NO_COLOR": "1"},
        )
        result = await self._tasks.run(task)
        code = None if result.is_timeout else result.code
        out, err = (data.decode("utf-8", "replace") for data in (result.out, result.err))
        return Answer(code, out, err or result.error or "")
