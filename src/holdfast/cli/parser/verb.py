"""What a verb of the command line is made of; the table itself is in `verbs`.

Plain classes: the table is built at every start, so it must cost next to nothing.
"""

from __future__ import annotations


class Option:
    """A flag, with a value if it has a metavar."""

    __slots__ = ("choices", "flags", "help", "kind", "metavar", "name")

    def __init__(
        self,
        flags: str,
        help: str,  # noqa: A002
        metavar: str = "",
        kind: str = "text",
        choices: tuple[str, ...] = (),
    ) -> None:
        self.flags = tuple(flags.split())
        self.help = help
        self.metavar = metavar or "|".join(choices)
        self.kind = kind
        """text, number, duration, when (a duration ago or a time), place (an event's number or
        when), pairs, several, rest"""
        self.choices = choices
        self.name = self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        return bool(self.metavar)


class Verb:
    """One thing the user can ask for."""

    __slots__ = (
        "about", "commands", "examples", "is_command_line", "least", "most", "name",
        "operands", "options", "place", "summary",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        summary: str,
        place: str,
        *,
        operands: str = "",
        least: int = 0,
        most: int | None = 0,
        options: tuple[Option, ...] = (),
        commands: tuple[str, ...] = (),
        about: str = "",
        examples: tuple[tuple[str, str], ...],
        is_command_line: bool = False,
    ) -> None:
        self.name = name
        self.summary = summary
        self.place = place
        """`module:function` below holdfast.cli, imported only when the verb is used."""
        self.operands = operands
        self.least = least
        self.most = most
        self.options = options
        self.commands = commands
        """The commands of the vocabulary that it may send."""
        self.about = about
        self.examples = examples
        self.is_command_line = is_command_line
        """Whether everything from the first operand on belongs to another program."""


SERVICES = "[SERVICE…]"
NO_WAIT = Option("--no-wait", "do not wait until each has stayed up for its start_seconds")
TIMEOUT = Option("--timeout", "wait no longer than this; 2m by default", "TIME", "duration")
TIMESTAMPS = Option("-t --timestamps", "begin each line with its time")
NO_PREFIX = Option("--no-prefix", "do not begin lines with the service's name")
