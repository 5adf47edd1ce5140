"""How a keeper was started, and how another one like it would be."""

from __future__ import annotations

import os

from holdfast.system import lean_json


class Options:
    """How this keeper was started."""

    __slots__ = ("import_path", "project", "runtime", "state", "supervisor_argv")

    def __init__(
        self,
        state: str,
        runtime: str,
        import_path: list[str],
        project: str | None,
        supervisor_argv: list[str] | None,
    ) -> None:
        self.state = state
        self.runtime = runtime
        self.import_path = import_path
        self.project = project
        self.supervisor_argv = supervisor_argv

    def arguments(self, import_path: list[str]) -> list[str]:
        arguments = ["--state", self.state, "--runtime", self.runtime]
        arguments += ["--import-path", os.pathsep.join(import_path)]
        if self.project is not None:
            arguments += ["--project", self.project]
        if self.supervisor_argv is not None:
            arguments += ["--supervisor-argv", lean_json.dumps_ascii(self.supervisor_argv)]
        return arguments
