"""THE verbs: what a verb is made of, and the table of contents that finds one.

A verb is a function under `@Verb(…)` in the module of its family. The decorator is its row: the
parser, help, completion and the reference page are made from it. A family is imported when one
of its verbs is meant, so that `status` loads no other. To add a verb, write its function and put
its name into `CONTENTS`; a test compares the two.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from holdfast.cli.call import Call

    Function = Callable[[Call], int]
    Kind = Literal["text", "number", "duration", "when", "place", "pairs", "several", "rest"]

CONTENTS: dict[str, dict[str, str]] = {
    "Project": {
        "init": "init", "import": "migration", "export": "migration",
        "check": "configuration",
        "config": "configuration", "up": "up", "plan": "configuration",
        "reload": "configuration", "run": "run", "down": "down",
    },
    "Inspect": {
        "status": "status", "health": "health", "logs": "logs", "events": "history",
        "ps": "status", "runs": "history", "env": "environment", "banners": "status",
        "ls": "status",
    },
    "Diagnose": {
        "explain": "explain", "graph": "dependencies", "alerts": "alerts", "top": "metrics",
        "metrics": "metrics", "audit": "security",
    },
    "Control": {
        "start": "services", "stop": "services", "restart": "services", "pause": "services",
        "resume": "services", "signal": "services", "wait": "history", "adopt": "services",
        "rm": "services", "attach": "attach", "terminal": "attach",
        "send": "attach",
    },
    "Scale": {"scale": "instances", "rolling-restart": "instances"},
    "Tasks": {
        "exec": "workflows", "custom-restart": "workflows", "workflow": "workflows",
        "job": "jobs",
    },
    "Code": {"files": "files", "search": "search", "git": "git", "checkpoint": "git"},
    "Access": {
        "agent": "agents", "context": "remote", "mcp": "mcp.verb",
        "dashboard": "security", "ports": "ports", "sessions": "sessions",
    },
    "Security": {
        "mode": "authority", "lockdown": "authority", "unlock": "authority",
        "approvals": "authority", "approve": "authority", "reject": "authority",
        "policies": "authority", "may": "security",
    },
    "Maintenance": {
        "token": "security", "prune": "maintenance", "upgrade": "maintenance",
        "doctor": "doctor", "install-service": "boot", "uninstall-service": "boot",
        "completion": "parser.completion", "version": "maintenance",
        "help": "parser.help",
    },
}  # fmt: skip
"""Each group of the help, with its verbs in order and the module of each below `holdfast.cli`."""
FAMILIES = {name: family for verbs in CONTENTS.values() for name, family in verbs.items()}
NAMES = tuple(FAMILIES)


class Option:
    """A flag, with a value if it has a metavar."""

    __slots__ = ("choices", "flags", "help", "kind", "metavar", "name")

    def __init__(
        self,
        flags: str,
        help: str,  # noqa: A002
        metavar: str = "",
        kind: Kind = "text",
        choices: tuple[str, ...] = (),
    ) -> None:
        self.flags = tuple(flags.split())
        self.help = help
        self.metavar = metavar or "|".join(choices)
        self.kind = kind
        """How a value is read: `when` is a duration ago or a time, `place` the number of an event
        or a time; `pairs` and `several` may be repeated; `rest` takes the rest of the line."""
        self.choices = choices
        self.name = self.flags[-1].lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        return bool(self.metavar)


_defined: dict[str, Verb] = {}


class Verb:
    """One thing the user can ask for, written above the function that does it. A plain class: it
    is built at every start."""

    __slots__ = (
        "about", "commands", "examples", "is_command_line", "least", "most", "name",
        "operands", "options", "run", "summary",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        summary: str,
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
        self.run: Function
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

    def __call__(self, function: Function) -> Function:
        self.run = function
        _defined[self.name] = self
        return function


def verb_of(name: str) -> Verb | None:
    """The verb of this name; its family is imported."""
    family = FAMILIES.get(name)
    if family is None:
        return None
    __import__(f"holdfast.cli.{family}")
    return _defined[name]


def every_verb(prefix: str = "") -> list[Verb]:
    """All verbs that begin so, in the order of the contents; their families are imported."""
    names = [name for name in NAMES if name.startswith(prefix)]
    return [found for name in names if (found := verb_of(name)) is not None]


GLOBAL_OPTIONS = (
    Option("-c --config", "use this configuration (environment: HOLDFAST_CONFIG)", "FILE"),
    Option("-C", "work as if started in this folder", "DIR"),
    Option(
        "--host",
        "work on another machine: ssh://USER@HOST/FOLDER or a context (environment: HOLDFAST_HOST)",
        "HOST",
    ),
    Option("--state-dir", "keep state and sockets here (environment: HOLDFAST_STATE_DIR)", "DIR"),
    Option("--log-level", "how much Holdfast logs of itself: info, or engine=debug,…", "LEVEL"),
    Option("--log-format", "format of Holdfast's own log", choices=("human", "json")),
    Option("--port", "port of the network door", "N", "number"),
    Option("--json", "answer in JSON: one object, or one a line for streams"),
    Option("--color", "when to use colour (NO_COLOR: never)", choices=("auto", "always", "never")),
    Option("-h --help", "show help"),
    Option("-V --version", "show the version"),
)
SERVICES = "[SERVICE…]"
NO_WAIT = Option("--no-wait", "do not wait until each has stayed up for its start_seconds")
TIMEOUT = Option("--timeout", "wait no longer than this; 2m by default", "TIME", "duration")
TIMESTAMPS = Option("-t --timestamps", "begin each line with its time")
NO_PREFIX = Option("--no-prefix", "do not begin lines with the service's name")
