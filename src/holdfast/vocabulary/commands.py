"""Every command by its name: all that can be asked, and the one list that doors are made from.

A command is defined in the module of its subject, and a subject is listed here once. Subjects are
imported in this order until the wanted command is found, because importing the rest costs a new
supervisor 6 ms (of 200) before it can answer. `app.registry.preload` imports the rest right after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from holdfast.system.patterns import pattern
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.names import closest

SUBJECTS = (
    "holdfast",
    "services",
    "output",
    "history",
    "configuration",
    "security",
    "browser",
    "authority",
    "workflows",
    "alerts",
    "banners",
    "explain",
    "metrics",
    "health",
    "instances",
    "dependencies",
    "sessions",
    "preferences",
    "terminals",
    "ports",
    "files",
    "search",
    "git",
    "mcp_servers",
    "assistants",
    "agents",
    "jobs",
)
"""Modules of this package that define commands, in the order of the reference. Their handlers are
in the module of `app.handlers` that has the same name."""

_CAPITAL = pattern(r"(?<!^)(?=[A-Z])")
_ALIASES = {"health": "health_check", "reload_config": "reload"}


class Commands(Mapping[str, "type[Command]"]):
    """A mapping that imports subjects when they are first needed, from any thread."""

    def __init__(self) -> None:
        self._known: dict[str, type[Command]] = {}
        self._imported: set[str] = set()

    def __getitem__(self, name: str) -> type[Command]:
        found = self._known.get(name)
        if found is not None:
            return found
        for subject in SUBJECTS:
            self._import(subject)
            if name in self._known:
                return self._known[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for subject in SUBJECTS:
            self._import(subject)
        return iter(self._known)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _import(self, subject: str) -> None:
        if subject not in self._imported:
            self._known.update({kind.name: kind for kind in defined_in(subject)})
            self._imported.add(subject)


def defined_in(subject: str) -> list[type[Command]]:
    """The commands of a subject, in the order in which they are written."""
    module = import_module(f"holdfast.vocabulary.{subject}")
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Command)
        and kind.__module__ == module.__name__
        and "name" in vars(kind)
    ]


def subject_of(kind: type[Command]) -> str:
    """The subject that a command belongs to."""
    return kind.__module__.rpartition(".")[2]


COMMANDS = Commands()


def canonical_name(name: str) -> str:
    """The name of a command for what other programs call it: `HealthCheck` is `health_check`."""
    name = name if name.islower() else _CAPITAL.sub("_", name).lower()
    return _ALIASES.get(name, name)


def why_unknown(name: str) -> tuple[str, str] | None:
    """Message and hint about a name that no command has; None if a command has it."""
    canonical = canonical_name(name)
    if canonical in COMMANDS:
        return None
    guess = closest(canonical, list(COMMANDS))
    hint = f'did you mean "{guess}"?' if guess else "the reference lists the commands"
    return f'no command "{name}"', hint
