"""The keeper's command line: how it was started, and how another one like it would be.

Reads and writes the arguments. It opens nothing and changes nothing. Keepers of other versions
exec into this one with these arguments, so options are only ever added.
"""

from __future__ import annotations

import os

from holdfast.system import lean_json

_FLAGS = ("--no-supervisor",)


class Options:
    """The arguments of one keeper. A descriptor that was not passed is None."""

    __slots__ = (
        "check_fd",
        "has_import_path",
        "import_path",
        "launches_supervisor",
        "link_fd",
        "project",
        "ready_fd",
        "recover_fd",
        "resume_fd",
        "runtime",
        "state",
        "supervisor_argv",
    )

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
        self.has_import_path = bool(import_path)
        self.project = project
        self.supervisor_argv = supervisor_argv
        self.launches_supervisor = True
        self.check_fd: int | None = None
        """The table that is to be checked before an upgrade."""
        self.resume_fd: int | None = None
        """The table of the program image before this one: an upgrade."""
        self.recover_fd: int | None = None
        """The table that a supervisor wrote before it turned into this keeper."""
        self.link_fd: int | None = None
        self.ready_fd: int | None = None
        """Where to say that the keeper is ready, or why it is not."""

    @property
    def table_fd(self) -> int | None:
        """What a predecessor left."""
        return self.resume_fd if self.resume_fd is not None else self.recover_fd

    @property
    def is_fresh(self) -> bool:
        """Whether this keeper takes over from nobody."""
        return self.table_fd is None and self.link_fd is None

    def arguments(self, import_path: list[str]) -> list[str]:
        """The arguments of a keeper for the same state folder."""
        arguments = ["--state", self.state, "--runtime", self.runtime]
        arguments += ["--import-path", os.pathsep.join(import_path)]
        if self.project is not None:
            arguments += ["--project", self.project]
        if self.supervisor_argv is not None:
            arguments += ["--supervisor-argv", lean_json.dumps_ascii(self.supervisor_argv)]
        return arguments


def parse(arguments: list[str]) -> Options:
    """Read the arguments of a keeper."""
    given: dict[str, str] = {}
    rest = iter(arguments)
    for name in rest:
        given[name] = "" if name in _FLAGS else next(rest)

    def descriptor(name: str) -> int | None:
        return int(given[name]) if name in given else None

    argv = given.get("--supervisor-argv")
    options = Options(
        os.path.abspath(given.get("--state", "")),
        os.path.abspath(given.get("--runtime", "")),
        [path for path in given.get("--import-path", "").split(os.pathsep) if path],
        given.get("--project"),
        None if argv is None else [str(word) for word in lean_json.loads(argv.encode())],
    )
    options.has_import_path = "--import-path" in given
    options.launches_supervisor = "--no-supervisor" not in given
    options.check_fd = descriptor("--check")
    options.resume_fd = descriptor("--resume")
    options.recover_fd = descriptor("--recover")
    options.link_fd = descriptor("--link")
    options.ready_fd = descriptor("--ready-fd")
    return options
