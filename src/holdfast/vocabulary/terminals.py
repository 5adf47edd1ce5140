"""New terminals beside services: the command and its answer."""

from __future__ import annotations

from holdfast.vocabulary.command import Command, Door, Effect, Permission, Result
from holdfast.vocabulary.services import Outcome


class TerminalResult(Result, frozen=True, kw_only=True):
    """A new terminal. It is a service of its own, under a name of its own."""

    service: str
    beside: str
    """The service whose user, folder and environment it has."""
    outcome: Outcome


class OpenTerminal(Command, frozen=True, kw_only=True):
    """Start a shell on a new terminal with the user, the folder and the environment of a service.

    For people who look after a service. It is off unless `commands: {allow_terminals: true}`;
    the owner at the local socket may always. The shell is a service under a name of its own: it
    is attached to, recorded, and goes on when nobody looks. Assistants cannot ask for one.
    """

    name = "open_terminal"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    carries_commands = True
    doors = frozenset({Door.CLI, Door.REST, Door.WEBSOCKET, Door.TCP})
    answers = TerminalResult
    route = ("POST", "/api/services/{service}/terminal")
    service: str
