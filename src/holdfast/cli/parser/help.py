"""`--help` of each verb and of all, and the reference page, from the table of verbs."""

from __future__ import annotations

import sys

from holdfast.cli.parser.verb import Option, Verb
from holdfast.cli.parser.verbs import GLOBAL_OPTIONS, every_verb, verb_of

GROUPS = (
    ("Begin", ("init", "check", "up", "plan", "reload", "run", "down")),
    ("Look", ("status", "health", "logs", "events", "ps", "runs", "attach", "ls")),
    ("Understand", ("explain", "alerts", "top", "metrics", "audit")),
    ("Act", ("start", "stop", "restart", "pause", "resume", "signal", "wait", "adopt", "rm")),
    ("Scale", ("scale", "rolling-restart")),
    ("Work", ("exec", "custom-restart", "workflow")),
    ("Code", ("files", "search", "git", "checkpoint")),
    ("Reach", ("mcp", "dashboard", "ports", "sessions")),
    ("Guard", ("mode", "lockdown", "unlock", "approvals", "approve", "reject")),
    ("Care", ("token", "prune", "upgrade", "doctor", "completion", "version", "help")),
)

EXIT_CODES = (
    (0, "done", "also when there was nothing to do: starting what runs is success"),
    (1, "failed", "what was asked could not be done; the message says where it failed"),
    (2, "usage", "the command line or the request is malformed"),
    (3, "unknown", "no service, file, run or change has that name; near names are suggested"),
    (
        4,
        "no daemon",
        "nothing runs for this project, or its supervisor or keeper does not answer",
    ),
    (5, "refused", "not allowed, or versions too far apart"),
    (6, "timeout", "it did not happen in the time allowed"),
    (7, "configuration", "the configuration cannot be used; nothing was changed"),
    (8, "changes", "`plan --exit-code`: a reload would do something"),
    (130, "interrupted", "Ctrl-C"),
    (141, "broken pipe", "the reader of the output went away, as `head` does"),
)


def show_help(verb: Verb | None) -> int:
    sys.stdout.write(help_of(verb) if verb else overview())
    return 0


def help_verb(call: object) -> int:
    """`holdfast help [VERB]`."""
    from holdfast.cli.parser.arguments import parse

    operands: list[str] = getattr(call, "operands", [])
    if not operands:
        return show_help(None)
    verb = verb_of(operands[0]) or parse([operands[0], "--help"]).verb
    return show_help(verb)


def overview() -> str:
    lines = [
        "Holdfast keeps processes running, and never lets go.",
        "",
        "usage: holdfast [OPTIONS] VERB …    (holdfast VERB --help tells more)",
    ]
    verbs = {verb.name: verb for verb in every_verb()}
    for title, names in GROUPS:
        lines += ["", title]
        lines += [f"  {name:<15} {verbs[name].summary}" for name in names]
    lines += ["", "Options of every verb", *_option_lines(GLOBAL_OPTIONS)]
    lines += [
        "",
        "Bare `holdfast` in a folder with a configuration is `holdfast up`.",
        "Begin with: holdfast init, or holdfast run -- COMMAND",
    ]
    return "\n".join(lines) + "\n"


def help_of(verb: Verb) -> str:
    lines = [verb.summary + ".", "", f"usage: {usage_of(verb)}"]
    if verb.about:
        lines += ["", verb.about]
    if verb.options:
        lines += ["", "Options", *_option_lines(verb.options)]
    lines += ["", "Examples"]
    width = max(len(command) for command, _ in verb.examples)
    if width <= 50:
        lines += [f"  {command:<{width}}  {why}" for command, why in verb.examples]
    else:
        for command, why in verb.examples:
            lines += [f"  {command}", f"      {why}"]
    mine = {flag for option in verb.options for flag in option.flags}
    others = [option for option in GLOBAL_OPTIONS if not mine & set(option.flags)]
    lines += ["", "Options of every verb", *_option_lines(others)]
    return "\n".join(lines) + "\n"


def usage_of(verb: Verb) -> str:
    options = " [OPTIONS]" if verb.options else ""
    operands = f" {verb.operands}" if verb.operands else ""
    return f"holdfast {verb.name}{options}{operands}"


def reference() -> str:
    """docs/reference/cli.md."""
    lines = [
        "# The command line",
        "",
        "<!-- Made by `python -m holdfast.cli.reference`; a test fails when it is stale. -->",
        "",
        "Options stand before or after the verb. Every verb takes `--json`; its answer is then",
        "one JSON object on standard output (one a line for streams), and so is an error:",
        '`{"error": {"code", "message", "hint", "exit_code"}}`. Without `--json`, errors go to',
        "standard error as `holdfast: MESSAGE` with a line that says the next step.",
        "",
        "Bare `holdfast` in a folder with a configuration is `holdfast up`. The project is found",
        "from any folder below its `holdfast.yaml`, the way git finds its repository.",
        "",
        "## Options of every verb",
        "",
        *_option_table(GLOBAL_OPTIONS),
        "",
        "## Exit codes",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *(f"| {code} | {name} | {meaning} |" for code, name, meaning in EXIT_CODES),
        "",
        "`holdfast run --wait` passes on the exit code of what it ran (128 + N for signal N).",
    ]
    verbs = {verb.name: verb for verb in every_verb()}
    for _, names in GROUPS:
        for name in names:
            lines += ["", *_verb_page(verbs[name])]
    return "\n".join(lines) + "\n"


def _verb_page(verb: Verb) -> list[str]:
    lines = [f"## `{usage_of(verb)}`", "", verb.summary + "."]
    if verb.about:
        lines[-1] += " " + verb.about.replace("\n", " ")
    if verb.options:
        lines += ["", *_option_table(verb.options)]
    lines += ["", "```console"]
    for command, why in verb.examples:
        lines += [f"$ {command}    # {why}"]
    return [*lines, "```"]


def _option_table(options: tuple[Option, ...]) -> list[str]:
    rows = [(_flags(option).replace("|", "\\|"), option.help) for option in options]
    return [
        "| option | meaning |",
        "|---|---|",
        *(f"| `{flags}` | {text} |" for flags, text in rows),
    ]


def _option_lines(options: tuple[Option, ...] | list[Option]) -> list[str]:
    shown = [(_flags(option), option.help) for option in options]
    width = min(28, max((len(flags) for flags, _ in shown), default=0))
    lines: list[str] = []
    for flags, text in shown:
        if len(flags) > width:
            lines += [f"  {flags}", f"  {'':<{width}}  {text}"]
        else:
            lines.append(f"  {flags:<{width}}  {text}")
    return lines


def _flags(option: Option) -> str:
    names = ", ".join(option.flags)
    return f"{names} {option.metavar}" if option.takes_value else names
