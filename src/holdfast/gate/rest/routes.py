"""THE table of HTTP routes that end in a command: method, path, command.

Each command defines its own route. Some have more routes here, because programs know them by other
paths. `RouteTable` finds a route by one look into a dictionary where Starlette's router would try
a hundred patterns in turn. Owns no socket and asks nobody.
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


class Route(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    command: type[Command]
    operation: str
    """Its name in the OpenAPI document."""
    answers: type[Result]
    fields_from: Callable[[Fields], Fields] | None = None
    """Makes the fields of the command from those of the request."""
    convert_answer: Callable[[bytes, Fields], bytes] | None = None
    """Makes the answer of this path from the command's answer."""
    summary: str = ""
    takes: frozenset[str] | None = None
    """The command's fields that it takes besides those of its path; None means all."""

    @property
    def can_stream(self) -> bool:
        """Whether the answer can go on as server-sent events."""
        return "follow" in self.command.__struct_fields__ or self.command.name == "logs"

    @property
    def parameters(self) -> list[str]:
        """The names of the fields in the path."""
        return _PARAMETER.findall(self.path)


def _more_routes() -> list[Route]:
    """Routes to resources, and the paths of earlier dashboards."""
    status, restart, custom = (COMMANDS[name] for name in ("status", "restart", "custom_restart"))
    metrics, system = COMMANDS["metrics"], "/dashboard/api/system"
    routes = [
        Route("GET", "/api/services", status, "services", status.answers, summary=_ALL),
        Route(
            "GET", "/api/services/{service}/status", status, "service", ServiceStatus,
            lambda fields: {"services": [fields["service"]]}, legacy_answers.one_service,
            _ONE, frozenset(),
        ),
        Route(
            "GET", f"{system}/status", status, "system_status", SystemStatus,
            convert_answer=legacy_answers.system_status, summary=_SYSTEM,
        ),
        Route(
            "GET", f"{system}/metrics", metrics, "system_metrics", SystemMetrics,
            convert_answer=legacy_answers.system_metrics, summary=_METRICS,
        ),
        Route("POST", f"{system}/restart", restart, "system_restart", restart.answers),
        Route("POST", f"{system}/custom-restart", custom, "system_custom_restart", custom.answers),
    ]  # fmt: skip
    for method, name in (("GET", "get_mode"), ("POST", "set_mode")):
        command = COMMANDS.get(name)
        if command is not None and command.route != (method, MODE):
            routes.append(Route(method, MODE, command, f"dashboard_{name}", command.answers))
    return routes


def command_routes() -> list[Route]:
    """Return all routes, the commands' own first."""
    own = [
        Route(
            *command.route, command, command.name, command.answers, _FIELDS_FROM.get(command.name)
        )
        for command in COMMANDS.values()
        if command.route is not None and Door.REST in command.doors
    ]
    return own + _more_routes()


class RouteTable:
    """Finds the routes of a path: exact paths first, then patterns."""

    def __init__(self, routes: list[Route]) -> None:
        self._exact: dict[str, dict[str, Route]] = {}
        patterns: dict[str, dict[str, Route]] = {}
        for route in routes:
            paths = patterns if route.parameters else self._exact
            paths.setdefault(route.path, {})[route.method] = route
        self._patterns = [
            (re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", path) + r"\Z"), methods)
            for path, methods in patterns.items()
        ]

    def find(self, path: str) -> tuple[dict[str, Route], dict[str, str]] | None:
        """Return the routes of this path by method, and the fields in the path."""
        exact = self._exact.get(path)
        if exact is not None:
            return exact, {}
        for pattern, methods in self._patterns:
            if match := pattern.match(path):
                return methods, match.groupdict()
        return None


def _execute_fields(fields: Fields) -> Fields:
    """Rename `command`, which on the line is the name of the command itself."""
    if "command" not in fields:
        return fields
    if "custom_command" in fields:
        raise UsageError("there must be one command: `command` or `custom_command`")
    return {
        ("custom_command" if name == "command" else name): value for name, value in fields.items()
    }


MODE = "/dashboard/api/mode"
_FIELDS_FROM = {"execute_command": _execute_fields}
_ALL = "Tell what Holdfast and each service are doing."
_ONE = "Tell what one service is doing."
_METRICS = "Tell what services use, in the words of other dashboards, too."
_SYSTEM = "Tell what Holdfast and each service are doing, in the words of other dashboards, too."
