"""The reference page of the command line: `python -m holdfast.cli.reference` prints it.

Made from the rows of the verbs; a test compares it with docs/reference/cli.md.
"""

from __future__ import annotations

import sys

from holdfast.cli.parser.help import flags_of, usage_of
from holdfast.cli.parser.verbs import GLOBAL_OPTIONS, Option, Verb, every_verb

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


def reference() -> str:
    """The text of docs/reference/cli.md."""
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
    for verb in every_verb():
        lines += ["", *_verb_page(verb)]
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
    rows = [(flags_of(option).replace("|", "\\|"), option.help) for option in options]
    return [
        "| option | meaning |",
        "|---|---|",
        *(f"| `{flags}` | {text} |" for flags, text in rows),
    ]


if __name__ == "__main__":
    sys.stdout.write(reference())
