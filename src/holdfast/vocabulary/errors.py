"""The one tree of errors: each has a stable code, a message to act on, and a next step.

Standard library only. The CLI's exit codes are fixed here, so that no door invents one.
"""

from __future__ import annotations

from holdfast.vocabulary.names import closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, ClassVar


class HoldfastError(Exception):
    """Something a user can act on."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, hint: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = dict(details or {})

    def as_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }
        if self.details:
            fields["details"] = self.details
        return fields


class Failed(HoldfastError):
    """The request could not be carried out."""


class CommandFailed(Failed):
    """A command that was to be run failed, or was ended; `details` tells step by step how it
    went, with what each printed."""

    code = "command_failed"


class UsageError(HoldfastError):
    """The request itself is malformed."""

    code = "usage"
    exit_code = 2

    @classmethod
    def no_field(cls, command: str, name: str, known: Sequence[str]) -> UsageError:
        message = f'{command} has no field "{name[:100]}"'
        if guess := closest(name, list(known)):
            message += f'; did you mean "{guess}"?'
        return cls(message, f"known: {', '.join(known) or 'none'}")


class UnknownService(HoldfastError):
    """No service has that name."""

    code = "unknown_service"
    exit_code = 3

    @classmethod
    def named(cls, name: str, known: Sequence[str], *, has_file: bool = False) -> UnknownService:
        """`has_file`: it may be one that was added to the configuration."""
        message, hint = f'no service "{name}"', "`holdfast status` lists the services"
        if has_file:
            hint += f"; `holdfast up {name}` loads one that was added to the file"
        if guess := closest(name, list(known)):
            message += f'; did you mean "{guess}"?'
        listed = ", ".join(known) if known else "none"
        return cls(
            f"{message} known: {listed}" if guess else f"{message}; known: {listed}",
            hint,
            {"service": name},
        )


class NotFound(HoldfastError):
    """There is no such file, folder, change or run."""

    code = "not_found"
    exit_code = 3


class Conflict(HoldfastError):
    """It is not as the request says: changed meanwhile, there twice, or not fitting."""

    code = "conflict"


class Internal(HoldfastError):
    """A mistake of Holdfast's own; its log tells more."""

    code = "internal"


class NoDaemon(HoldfastError):
    """No Holdfast answers for this project."""

    code = "no_daemon"
    exit_code = 4


class ShuttingDown(NoDaemon):
    """This Holdfast is on its way down, and begins nothing any more."""

    code = "shutting_down"


class Refused(HoldfastError):
    """The actor may not do this, or it must not be done now."""

    code = "refused"
    exit_code = 5


class Unauthorized(Refused):
    """No token was shown, or none that is known, or it was revoked or has expired."""

    code = "unauthorized"


class TooManyRequests(HoldfastError):
    """The actor asks more often than one may."""

    code = "too_many_requests"
    exit_code = 5


class TimedOut(HoldfastError):
    """It did not happen in the time allowed."""

    code = "timeout"
    exit_code = 6


class ConfigError(HoldfastError):
    """The configuration cannot be used; nothing was changed."""

    code = "configuration"
    exit_code = 7


class OutcomeUnknown(HoldfastError):
    """It was begun before, under the same key; whether it was done, nobody knows."""

    code = "unknown_outcome"


class InvalidTransition(HoldfastError):
    """A state change that the lifecycle table does not allow."""

    code = "invalid_transition"


class SpawnFailed(HoldfastError):
    """A process could not be started; the message names the stage."""

    code = "spawn_failed"


class ResourceExceeded(HoldfastError):
    """The host is too busy, by the configured limits; the message names both values."""

    code = "resource_exceeded"


class KeeperGone(HoldfastError):
    """The keeper did not answer."""

    code = "keeper_gone"
    exit_code = 4


NOTHING_DONE = (Refused, TooManyRequests, UsageError, UnknownService, ConfigError)
"""What is raised before anything is changed."""
EXIT_CODES: dict[str, int] = {
    kind.code: kind.exit_code
    for kind in (
        HoldfastError,
        CommandFailed,
        UsageError,
        UnknownService,
        NotFound,
        Conflict,
        Internal,
        NoDaemon,
        ShuttingDown,
        Refused,
        TooManyRequests,
        TimedOut,
        ConfigError,
        OutcomeUnknown,
        InvalidTransition,
        SpawnFailed,
        ResourceExceeded,
        KeeperGone,
    )
}


def exit_code_of(error_code: str) -> int:
    """The CLI's exit code for an error that arrived over a door."""
    return EXIT_CODES.get(error_code, 1)
