"""Who listens on which port: process, command, and the Holdfast it belongs to.

Slow: use a thread. Shows only what this user may see.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.secrets.redaction import redact_arguments
from holdfast.system.places import digest, project_of, states_root

LONGEST_COMMAND = 160
_PARTS = {
    "from holdfast.gate.": "gate",
    "from holdfast.supervisor_start ": "supervisor",
    "holdfast/keeper/__main__.py": "keeper",
}
"""Words in the command line by which processes of a Holdfast are recognised."""


class ListeningPort(NamedTuple):
    """A port on which a process listens; without pid it is another user's process."""

    port: int
    addresses: tuple[str, ...]
    pid: int | None = None
    command: str = ""
    run_id: str | None = None
    service: str | None = None
    project: str | None = None


def listening(port: int | None = None) -> list[ListeningPort]:
    """Return all listening ports, or those of one port, sorted."""
    found: dict[tuple[int, int | None], list[str]] = {}
    for number, address, pid in sockets():
        if port is None or number == port:
            found.setdefault((number, pid), []).append(address)
    told = [_described(number, pid, addresses) for (number, pid), addresses in found.items()]
    return sorted(told, key=lambda one: (one.port, one.pid or 0))


OF_PROJECT = " of project "
"""In the name of a process of a Holdfast: which project it works for."""


def described(port: int) -> str:
    """Return in words which process listens on a port."""
    for one in listening(port):
        if one.pid is not None:
            whose = f", {one.service} of {one.project}" if one.service and one.project else ""
            return f"pid {one.pid} ({one.command}{whose})"
    return "an unknown process (another user's?)"


def sockets() -> Iterator[tuple[int, str, int | None]]:
    """Yield port, address and pid of everything that listens; None: another user's process."""
    import psutil

    try:
        connections: list[Any] = psutil.net_connections(kind="tcp")
        pairs = [(one, one.pid) for one in connections]
    except psutil.Error:
        pairs = []
        for process in psutil.process_iter():
            try:
                pairs += [(one, process.pid) for one in process.net_connections(kind="tcp")]
            except psutil.Error:
                continue
    for one, pid in pairs:
        if one.status == psutil.CONN_LISTEN:
            yield int(one.laddr.port), str(one.laddr.ip), pid


def _described(port: int, pid: int | None, addresses: list[str]) -> ListeningPort:
    unique = tuple(dict.fromkeys(addresses))
    if pid is None:
        return ListeningPort(port, unique)
    environ = _environ(pid)
    mark = environ.get("HOLDFAST_STATE")
    return ListeningPort(
        port,
        unique,
        pid,
        command_of(pid),
        environ.get("HOLDFAST_RUN_ID"),
        environ.get("HOLDFAST_SERVICE"),
        _project(mark) if mark else None,
    )


def command_of(pid: int) -> str:
    """Return the command of a process, without secrets; empty if it is hidden."""
    import psutil

    try:
        process = psutil.Process(pid)
        words = [word for word in process.cmdline() if word.isprintable()] or [process.name()]
        if part := _part_of_holdfast(words):
            state = words[words.index("--state") + 1] if "--state" in words else process.cwd()
            return f"the {part}{OF_PROJECT}{project_of(state) or state}"
    except psutil.Error:
        return ""
    return " ".join(redact_arguments(words))[:LONGEST_COMMAND]


def _part_of_holdfast(words: list[str]) -> str | None:
    """Return which process of a Holdfast this is: its command line would tell people nothing."""
    if words[1:3] != ["-I", "-S"]:
        return None
    program = " ".join(words[3:5])
    return next((part for sign, part in _PARTS.items() if sign in program), None)


def _environ(pid: int) -> dict[str, str]:
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


def _project(mark: str) -> str | None:
    """Return the project of the Holdfast that marked a process; one with a state folder elsewhere
    is not found.
    """
    folder = states_root(os.environ)
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        state = os.path.realpath(os.path.join(folder, name))
        # The mark is the whole digest, of which `digest` shows the first digits.
        if mark.startswith(digest(state)):
            return project_of(state) or None
    return None
