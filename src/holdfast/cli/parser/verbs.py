"""THE index of verbs: parser, help, completion and reference page are made from their tables.

Adding a verb is adding a row to a table (`*_verbs.py`), its name here, and a function where the
row points. A table is loaded when one of its verbs is meant: `status` needs no other.
"""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

GLOBAL_OPTIONS = (
    Option("-c --config", "use this configuration (environment: HOLDFAST_CONFIG)", "FILE"),
    Option("-C", "work as if started in this folder", "DIR"),
    Option("--state-dir", "keep state and sockets here (environment: HOLDFAST_STATE_DIR)", "DIR"),
    Option("--log-level", "how much Holdfast logs of itself: info, or engine=debug,…", "LEVEL"),
    Option("--log-format", "how it does so", choices=("human", "json")),
    Option("--port", "port of the network door", "N", "number"),
    Option("--json", "answer in JSON: one object, or one a line for streams"),
    Option("--color", "when to use colour (NO_COLOR: never)", choices=("auto", "always", "never")),
    Option("-h --help", "show help"),
    Option("-V --version", "show the version"),
)

PLACES: dict[str, tuple[str, ...]] = {
    "begin": ("init", "up", "run", "down"),
    "look": ("status", "logs", "events", "ps", "runs", "attach", "ls"),
    "act": ("start", "stop", "restart", "pause", "resume", "signal", "wait", "adopt", "rm"),
    "authority": ("mode", "lockdown", "unlock", "approvals", "approve", "reject"),
    "file": ("files",),
    "git": ("search", "git", "checkpoint"),
    "health": ("health",),
    "instance": ("scale", "rolling-restart"),
    "mcp": ("mcp",),
    "metric": ("metrics", "top"),
    "reload": ("check", "plan", "reload"),
    "security": ("token", "dashboard", "audit"),
    "session": ("ports", "sessions"),
    "trouble": ("explain", "alerts"),
    "workflow": ("custom-restart", "exec", "workflow"),
    "care": ("prune", "upgrade", "doctor", "completion", "version", "help"),
}
"""Tables, and the verbs in each."""
NAMES = tuple(name for names in PLACES.values() for name in names)


def verb_of(name: str) -> Verb | None:
    """The verb of this name."""
    for place, names in PLACES.items():
        if name in names:
            return next(verb for verb in _table(place) if verb.name == name)
    return None


def every_verb() -> list[Verb]:
    """All of them, in the order of the index."""
    return [verb for place in PLACES for verb in _table(place)]


def _table(place: str) -> tuple[Verb, ...]:
    name = f"{place.upper()}_VERBS"
    module = __import__(f"holdfast.cli.{place}_verbs", fromlist=[name])
    table: tuple[Verb, ...] = getattr(module, name)
    return table
