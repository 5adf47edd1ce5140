"""What a command is called by others: `HealthCheck` and `health` are `health_check`. Pure."""

from __future__ import annotations

from holdfast.system.patterns import pattern
from holdfast.vocabulary.names import closest

_CAPITAL = pattern(r"(?<!^)(?=[A-Z])")
_ALSO = {"health": "health_check", "reload_config": "reload"}


def named(said: str) -> str:
    """The name in the registry, if there is such a command."""
    name = said if said.islower() else _CAPITAL.sub("_", said).lower()
    return _ALSO.get(name, name)


def why_unknown(said: str) -> tuple[str, str] | None:
    """Message and hint about a name that no command has; None: there is one."""
    from holdfast.vocabulary.commands import COMMANDS

    name = named(said)
    if name in COMMANDS:
        return None
    guess = closest(name, list(COMMANDS))
    hint = f'did you mean "{guess}"?' if guess else "the reference lists the commands"
    return f'no command "{said}"', hint
