"""Every way in over HTTP that ends in a command: method, path, and what the path itself says.

A command has its own route; some have more, because programs know them by other names. Owns no
socket and asks nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.gate.rest import legacy_answers
from holdfast.vocabulary.command import Command, Door, Result
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.dashboard import SystemMetrics, SystemStatus
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.services import ServiceStatus

_PARAMETER = re.compile(r"{(\w+)}")
Fields = dict[str, Any]


class Way(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    command: type[Command]
    operation: str
    """Its name in the description."""
    answers: type[Result]
    given: Callable[[Fields], Fields] | None = None
    """Fields of the command, from those of the request."""
    shape: Callable[[bytes, Fields], bytes] | None = None
    """The answer as this path tells it."""
    summary: str = ""
    takes: frozenset[str] | None = None
    """The command's fields that it takes beside those of its path; None: all."""

    @property
    def parameters(self) -> list[str]:
        """What stands in the path."""
        return _PARAMETER.findall(self.path)


def _more() -> list[Way]:
    """Resources, and the paths of earlier dashboards as they stood there."""
    status, restart, custom = (COMMANDS[name] for name in ("status", "restart", "custom_restart"))
    metrics, system = COMMANDS["metrics"], "/dashboard/api/system"
    found = [
        Way("GET", "/api/services", status, "services", status.answers, summary=_ALL),
        Way(
            "GET", "/api/services/{service}/status", status, "service", ServiceStatus,
            lambda fields: {"services": [fields["service"]]}, legacy_answers.one_service,
            _ONE, frozenset(),
        ),
        Way(
            "GET", f"{system}/status", status, "system_status", SystemStatus,
            shape=legacy_answers.system_status, summary=_SYSTEM,
        ),
        Way(
            "GET", f"{system}/metrics", metrics, "system_metrics", SystemMetrics,
            shape=legacy_answers.system_metrics, summary=_METRICS,
        ),
        Way("POST", f"{system}/restart", restart, "system_restart", restart.answers),
        Way("POST", f"{system}/custom-restart", custom, "system_custom_restart", custom.answers),
    ]  # fmt: skip
    for method, name in (("GET", "get_mode"), ("POST", "set_mode")):
        command = COMMANDS.get(name)
        if command is not None and command.route != (method, MODE):
            found.append(Way(method, MODE, command, f"dashboard_{name}", command.answers))
    return found


def ways() -> list[Way]:
    """All of them: the commands' own routes first."""
    own = [
        Way(*command.route, command, command.name, command.answers, _GIVEN.get(command.name))
        for command in COMMANDS.values()
        if command.route is not None and Door.REST in command.doors
    ]
    return own + _more()


class Table:
    """Finds the ways of a path: at once where it is known to the letter."""

    def __init__(self, found: list[Way]) -> None:
        self._exact: dict[str, dict[str, Way]] = {}
        patterns: dict[str, dict[str, Way]] = {}
        for way in found:
            place = patterns if way.parameters else self._exact
            place.setdefault(way.path, {})[way.method] = way
        self._patterns = [
            (re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", path) + r"\Z"), methods)
            for path, methods in patterns.items()
        ]

    def find(self, path: str) -> tuple[dict[str, Way], dict[str, str]] | None:
        """The ways of this path by method, with what stands in it."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        for pattern, methods in self._patterns:
            if match := pattern.match(path):
                return methods, match.groupdict()
        return None


def _execute(fields: Fields) -> Fields:
    """On the line, `command` is the name of what is asked."""
    if "command" not in fields:
        return fields
    if "custom_command" in fields:
        raise UsageError("there must be one command: `command` or `custom_command`")
    return {("custom_command" if name == "command" else name): it for name, it in fields.items()}


MODE = "/dashboard/api/mode"
_GIVEN = {"execute_command": _execute}
_ALL = "Tell what Holdfast and each service are doing."
_ONE = "Tell what one service is doing."
_METRICS = "Tell what services use, in the words of other dashboards, too."
_SYSTEM = "Tell what Holdfast and each service are doing, in the words of other dashboards, too."
