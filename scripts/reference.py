"""Writes the generated pages of docs/reference from the vocabulary and the table of verbs, and
what the relay of assistants answers itself.

`python scripts/reference.py` writes; a test calls `pages()` and fails when one is stale.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.cli.reference import EXIT_CODES
from holdfast.cli.reference import reference as command_line
from holdfast.gate.errors import STATUS, TITLES
from holdfast.gate.mcp import first_answers
from holdfast.gate.rest.openapi import describe
from holdfast.rules.lifecycle.table import TABLE
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import MEANING, Event
from holdfast.vocabulary.states import LABEL, STREAM_STATE, State
from holdfast.vocabulary.workflows import CustomCommand

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Made by scripts/reference.py; do not edit. -->"

STATE_MEANING = {
    State.PENDING: "Known, and not started yet.",
    State.STARTING: "Its process runs, but not yet for `start_seconds`.",
    State.RUNNING: "Its process has stayed up.",
    State.PAUSED: "Its processes are frozen.",
    State.STOPPING: "It was asked to end; some of its processes are still there.",
    State.STOPPED: "It was stopped on request; no process is left.",
    State.FAILED: "It ended with a failure, or could not be started, and nothing more is planned.",
    State.BACKOFF: "It ended, and will be started again after a pause.",
    State.EXITED: "It ended by itself with a success code.",
}


def page(title: str, *lines: str) -> str:
    return "\n".join([f"# {title}", "", NOTE, "", *lines]).rstrip() + "\n"


def documentation(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def command_lines(kind: type[Command]) -> Iterator[str]:
    yield from (f"## {kind.name}", "", documentation(kind), "")
    doors = ", ".join(sorted(door.value for door in kind.doors))
    yield f"Needs `{kind.permission.value}`; {kind.effect.value}; offered on {doors}."
    if kind.streams:
        yield "Answers with items until it ends or is cancelled."
    if kind.route:
        yield f"HTTP: `{kind.route[0]} {kind.route[1]}`."
    yield ""
    yield from field_lines(kind)


def field_lines(kind: type[msgspec.Struct]) -> Iterator[str]:
    fields = msgspec.structs.fields(kind)
    if fields:
        yield from ("| field | type | default |", "|---|---|---|")
        hints: dict[str, object] = {}
        for ancestor in reversed(kind.__mro__):
            hints.update(inspect.get_annotations(ancestor))
        for field in fields:
            annotation = str(hints[field.name]).replace("|", "\\|")
            yield f"| `{field.encode_name}` | `{annotation}` | {default_of(field)} |"
        yield ""


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    return f"`{value!r}`" if value is not None else "none"


def commands() -> str:
    introduction = (
        "What can be asked, through every door alike. On the Unix socket `line.sock` a",
        'request is one JSON object a line: `{"id": 1, "command": "status", …fields}`.',
        'The answer is `{"id": 1, "ok": true, "result": {…}}` or an [error](errors.md). Streams',
        'answer `{"id": 1, "item": {…}}` lines first, until `{"command": "cancel", "target": 1}`.',
        "A command that changes something may have a `key`: asked again under it, it is",
        "[done once](../guides/sessions.md#commands-that-may-be-repeated).",
        "",
    )
    lines = [line for kind in COMMANDS.values() for line in command_lines(kind)]
    lines += ["## CustomCommand", "", documentation(CustomCommand), "", *field_lines(CustomCommand)]
    return page("Commands", *introduction, *lines)


def events() -> str:
    introduction = (
        "What can happen. An event is stored before it is published and has a sequence number;",
        "`holdfast events --since SEQ` replays from any number.",
        "",
        "| kind | meaning |",
        "|---|---|",
    )
    rows = (f"| `{kind.value}` | {text} |" for kind, text in MEANING.items())
    fields = ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(Event))
    return page("Events", *introduction, *rows, "", f"Every event has the fields {fields}.")


def error_classes() -> Iterator[type[HoldfastError]]:
    """The classes of the vocabulary, each code once."""
    seen: set[str] = set()
    kinds: list[type[HoldfastError]] = [*HoldfastError.__subclasses__(), HoldfastError]
    kinds += [narrower for kind in kinds[:-1] for narrower in kind.__subclasses__()]
    for kind in kinds:
        if kind.code not in seen and kind.__module__ == HoldfastError.__module__:
            seen.add(kind.code)
            yield kind


def errors() -> str:
    codes = (f"| {code} | {name} | {meaning} |" for code, name, meaning in EXIT_CODES)
    rows = (
        f"| `{kind.code}` | {kind.exit_code} | {documentation(kind)} |" for kind in error_classes()
    )
    return page(
        "Errors and exit codes",
        'An error is `{"code", "message", "hint", "details"?}`: the code is stable, the message',
        "says what happened, the hint what to do next.",
        "",
        "| code | exit code | meaning |",
        "|---|---|---|",
        *rows,
        "",
        "## Exit codes of the command line",
        "",
        "| exit code | name | meaning |",
        "|---|---|---|",
        *codes,
        "",
        "`holdfast run --wait`, and a foreground `up` with an `essential` service, pass on the",
        "exit code of what they ran instead.",
    )


def states() -> str:
    rows = (
        f"| `{state.value}` | {STATE_MEANING[state]} | {STREAM_STATE[state]} | {LABEL[state]} |"
        for state in State
    )
    order = list(State)
    moves = (
        f"| `{before.value}` | {cause.value} | `{after.value}` |"
        for (before, cause), after in sorted(TABLE.items(), key=lambda row: order.index(row[0][0]))
    )
    return page(
        "States",
        "| state | meaning | to streams | label |",
        "|---|---|---|---|",
        *rows,
        "",
        "The *desired* state, `running` or `stopped`, is kept apart and survives everything.",
        "",
        "## Transitions",
        "",
        "| from | cause | to |",
        "|---|---|---|",
        *moves,
        "",
        "Any other one is refused: `Invalid transition: a->b`.",
    )


def rest() -> str:
    """Every path of the gate, as its description tells it."""
    described = describe()["paths"]
    rows = []
    for path, methods in sorted(described.items()):
        for method, operation in methods.items():
            command = operation.get("x-holdfast-command")
            name = f"[`{command}`](commands.md#{command})" if command else "–"
            needs = operation.get("x-holdfast-permission")
            right = (
                f"`{needs}`" if needs else ("–" if operation.get("security") == [] else "a token")
            )
            told = ", ".join(f"`{kind}`" for kind in operation["responses"]["200"]["content"])
            rows.append(f"| `{method.upper()} {path}` | {name} | {right} | {told} |")
    codes = [f"| {status} | `{code}` | {TITLES[status]} |" for code, status in STATUS.items()]
    return page(
        "HTTP",
        "The paths of the gate. Fields of a command stand in its path, in the query of a `GET` and",
        "in the JSON body of a `POST`; types and examples are in `/api/openapi.json`, and",
        "`/api/reference` is a page that shows and tries them. See [doors](../guides/doors.md).",
        "",
        "| path | command | needs | answers |",
        "|---|---|---|---|",
        *rows,
        "",
        "## Errors",
        "",
        "An error is `application/problem+json`: `type`, `title`, `status`, `detail`, `code`,",
        "`hint` and sometimes `details`. Decide by `code`.",
        "",
        "| status | code | title |",
        "|---|---|---|",
        *codes,
        "| 422 | `usage` | It fits the description, and means nothing here |",
    )


def pages() -> dict[str, str]:
    return {
        "cli.md": command_line(),
        "commands.md": commands(),
        "errors.md": errors(),
        "events.md": events(),
        "http.md": rest(),
        "states.md": states(),
    }


def main() -> None:
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    first_answers.main()


if __name__ == "__main__":
    main()
