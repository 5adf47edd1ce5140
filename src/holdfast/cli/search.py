"""`holdfast search`: in files, or in the output of services."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@Verb(
    "search",
    "Search in files, or in what services printed",
    operands="PATTERN [PATH…|SERVICE…]",
    least=1,
    most=None,
    options=(
        Option("--logs", "search in the output of services instead of files"),
        Option("-g --glob", "only files like these: '*.py', '!tests/**'", "GLOB", "several"),
        Option("--type", "only files of this type: py, rust, md", "TYPE", "several"),
        Option("-l --files", "only names of files"),
        Option("--counts", "only how many lines of each file match"),
        Option("--context", "so many lines around each match", "N", "number"),
        Option("-F --literal", "treat the pattern as plain text"),
        Option("--case", "letters; smart by default", choices=("smart", "sensitive", "ignore")),
        Option("--hidden", "files and folders that begin with a dot, too"),
        Option("--since", "logs: only what is newer: 10m, 2h, or a time", "TIME", "when"),
        Option("--until", "logs: only what is older", "TIME", "when"),
        Option("--stream", "logs: only standard output or error", choices=("out", "err")),
        Option("--raw", "logs: match the bytes as printed, with colours and control sequences"),
        Option("-n --limit", "at most so many; 50 by default", "N", "number"),
        Option("--cursor", "go on where an answer ended", "CURSOR"),
    ),
    commands=("search", "search_logs"),
    about=(
        "A regular expression as ripgrep takes it. Ignore files are honoured, links not\n"
        "followed. Exit code 1 if nothing was found."
    ),
    examples=(
        ("holdfast search 'def \\w+_of' src -g '*.py'", "in some files of a folder"),
        ("holdfast search --files -F 'import msgspec'", "the names of files"),
        ("holdfast search --logs 'ERROR|WARN' web --since 1h", "in what a service printed"),
    ),
)
def search(call: Call) -> int:
    fields: dict[str, Any] = {"pattern": call.operands[0]}
    for name in ("case", "limit", "cursor", "literal"):
        if name in call.options:
            fields[name] = call.options[name]
    if call.options.get("logs"):
        return _search_logs(call, fields)
    return _search_files(call, fields)


def _search_files(call: Call, fields: dict[str, Any]) -> int:
    for name in ("glob", "type", "context", "hidden"):
        if name in call.options:
            fields[name] = call.options[name]
    if len(call.operands) > 2:
        raise UsageError("at most one path", "a folder, or a file; `--glob` chooses more")
    fields["path"] = call.path(call.operands[1] if len(call.operands) > 1 else ".")
    if call.options.get("files") or call.options.get("counts"):
        fields["mode"] = "files" if call.options.get("files") else "count"
    result = call.ask("search", **fields, max_bytes=64_000)
    if call.is_json:
        call.emit(result)
    else:
        for hit in result["hits"]:
            call.say(_hit_line(call, hit))
        for path in result["files"]:
            call.say(path)
        for file in result["counts"]:
            call.say(f"{file['path']}:{file['count']}")
        _note_rest(call, result)
    return 0 if result["hits"] or result["files"] or result["counts"] else 1


def _hit_line(call: Call, hit: dict[str, Any]) -> str:
    mark = ":" if "column" in hit else "-"
    return f"{call.paint(hit['path'], 'cyan')}{mark}{hit['line']}{mark}{hit['text']}"


def _search_logs(call: Call, fields: dict[str, Any]) -> int:
    for name in ("since", "until", "stream", "raw"):
        if name in call.options:
            fields[name] = call.options[name]
    result = call.ask("search_logs", **fields, services=call.operands[1:], max_bytes=64_000)
    if call.is_json:
        call.emit(result)
        return 0 if result["hits"] else 1
    for hit in result["hits"]:
        moment = call.paint(durations.show_time(hit["time"]), "dim")
        call.say(f"{moment} {call.paint(hit['service'], 'cyan')} | {hit['text']}")
    _note_rest(call, result)
    return 0 if result["hits"] else 1


def _note_rest(call: Call, result: dict[str, Any]) -> None:
    for note in result["notes"]:
        call.note(note)
    if not result["complete"] and result["cursor"]:
        call.note(f"there is more: --cursor {result['cursor']}, or --limit")
