"""What a user declares about readiness and health: which probes, how often, with what effect.

Durations are seconds. A probe asks one thing; its roles say what the answer is used for.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["startup", "readiness", "liveness"]
Action = Literal["restart", "report"]


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True, tag="http"):
    """An address that answers with an expected status."""

    url: str
    method: str = "GET"
    status: tuple[tuple[int, int], ...] = ((200, 399),)
    """Ranges that are a success, both ends included."""
    body: str | None = None
    """A regular expression that must be found in the answer."""
    headers: dict[str, str] = {}
    verify: bool | None = None
    """Whether the certificate is verified. None: everywhere but on loopback."""
    follow: bool = False
    """Whether a redirect is followed instead of being the answer."""


class TcpTarget(msgspec.Struct, frozen=True, kw_only=True, tag="tcp"):
    """A port that takes a connection."""

    host: str
    port: int
    lease: str | None = None
    """The name of a port of the service itself, whose number is known when the run begins."""


class ExecTarget(msgspec.Struct, frozen=True, kw_only=True, tag="exec"):
    """A command that ends with exit code 0."""

    argv: tuple[str, ...]


class LogTarget(msgspec.Struct, frozen=True, kw_only=True, tag="log"):
    """A line of the service's output, once in a run; for liveness once in each interval.

    The pattern is for lines as they are shown; if `raw`, for their bytes.
    """

    pattern: str
    raw: bool = False


class NotifyTarget(msgspec.Struct, frozen=True, kw_only=True, tag="notify"):
    """The service's own report that it is ready; for liveness that it is alive."""


class ProcessTarget(msgspec.Struct, frozen=True, kw_only=True, tag="process"):
    """Whether the main process lives, where an interval is declared and nothing to ask."""


class McpTarget(msgspec.Struct, frozen=True, kw_only=True, tag="mcp"):
    """The protocol of an MCP server: it has told its tools, or it still answers."""


Target = HttpTarget | TcpTarget | ExecTarget | LogTarget | NotifyTarget | ProcessTarget | McpTarget


class ProbeSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question that is asked about a run again and again."""

    roles: tuple[Role, ...]
    target: Target
    interval: float = 30.0
    timeout: float = 10.0
    retries: int = 3
    """Failed checks in a row that count."""
    initial_delay: float = 0.0
    success_threshold: int = 1
    """Passed checks in a row that count."""
    action: Action = "restart"

    @property
    def name(self) -> str:
        """The name that users see."""
        is_check = len(self.roles) > 1 or self.kind == "process"
        return "health_check" if is_check else self.roles[0]

    @property
    def kind(self) -> str:
        """http, tcp, exec, log, notify, process or mcp."""
        return str(self.target.__struct_config__.tag)


class NotifySpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a service reports its own state, beside the socket that NOTIFY_SOCKET names."""

    fd: int | None = None
    """The descriptor where it writes a newline when it is ready."""
    watchdog: float | None = None
    """How often it must report that it is alive."""
