"""`holdfast files`: read, list, write, edit, patch, undo, and the list of changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_INPUT_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024


@Verb(
    "files",
    "Read, list, change and undo files below the configured roots",
    operands="read|ls|write|edit|patch|undo|changes [PATH]",
    least=1,
    most=2,
    options=(
        Option("--offset", "read: the first line, from 1", "LINE", "number"),
        Option("--limit", "read: so many lines; ls, changes: so many at most", "N", "number"),
        Option("-n --tail", "read: only the last lines", "N", "number"),
        Option("--depth", "ls: so many folders deep", "N", "number"),
        Option("--hidden", "ls: names that begin with a dot, too"),
        Option("--ignored", "ls: what .gitignore and .ignore name, too"),
        Option("--old", "edit: the piece to be replaced", "TEXT"),
        Option("--new", "edit: what replaces it", "TEXT"),
        Option("-a --all", "edit: replace every occurrence"),
        Option("--etag", "write, edit: only if the file is still the one with this", "ETAG"),
        Option("--force", "write: whatever is there; undo: also if it was changed since"),
        Option("--root", "patch: its paths are below this root, not the first", "NAME"),
        Option("--dry-run", "only show what would be done"),
    ),
    commands=(
        *("read_file", "list_files", "write_file", "edit_file"),
        *("apply_patch", "undo_files", "file_changes"),
    ),
    about=(
        "A path is relative to this folder, or ROOT:PATH. `write` takes the content from\n"
        "standard input, `patch` a unified diff. `undo` takes back the newest change, or that\n"
        "of a PATH, or a change by its id. Which folders are offered, and whether they may be\n"
        "changed, is said under `files:` in the configuration."
    ),
    examples=(
        ("holdfast files read src/app.py --offset 40 --limit 20", "twenty lines"),
        ("holdfast files ls --depth 2", "two folders deep, without what is ignored"),
        ("holdfast files edit app.py --old 'port = 1' --new 'port = 2'", "one place"),
        ("git diff | holdfast files patch", "all of its files, or none"),
        ("holdfast files undo", "take the newest change back"),
    ),
)
def files(call: Call) -> int:
    operation, path = call.operands[0], call.operands[1] if len(call.operands) > 1 else None
    known: dict[str, Callable[[Call, str | None], int]] = {
        "read": _read, "ls": _list, "list": _list, "write": _write, "edit": _edit,
        "patch": _patch, "undo": _undo, "changes": _changes,
    }  # fmt: skip
    if operation not in known:
        names = "read, ls, write, edit, patch, undo, changes"
        raise UsageError(f'"{operation}" is none of {names}', "holdfast files --help")
    if path is None and operation in ("read", "write", "edit"):
        raise UsageError(f"files {operation} needs a path", f"holdfast files {operation} PATH")
    return known[operation](call, path)


def _read(call: Call, path: str | None) -> int:
    fields: dict[str, Any] = {"path": call.path(path or ""), "max_bytes": CHUNK_BYTES}
    for name in ("offset", "limit", "tail"):
        if name in call.options:
            fields[name] = call.options[name]
    result = call.ask("read_file", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    if result["encoding"] == "binary":
        call.note(f"{result['path']} is binary: {result['size']} bytes, etag {result['etag']}")
        return 1
    is_part = "limit" in fields or "tail" in fields
    call.write(result["content"])
    while result["next_byte"] is not None and not is_part:
        result = call.ask(
            "read_file", path=fields["path"], from_byte=result["next_byte"], max_bytes=CHUNK_BYTES
        )
        call.write(result["content"])
    return 0


def _list(call: Call, path: str | None) -> int:
    fields: dict[str, Any] = {"path": call.path(path or "")}
    for name in ("depth", "hidden", "ignored", "limit"):
        if name in call.options:
            fields[name] = call.options[name]
    result = call.ask("list_files", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    for entry in result["entries"]:
        call.say(_entry_line(call, entry))
    if result["truncated"]:
        call.note("there is more; --limit shows more of it")
    return 0


def _entry_line(call: Call, entry: dict[str, Any]) -> str:
    name = "".join(char if char.isprintable() else "?" for char in entry["path"])
    if entry["kind"] == "directory":
        name = call.paint(f"{name}/", "bold")
    if entry["kind"] == "link":
        name += f" -> {entry['target']}"
    return f"{name} (denied)" if entry.get("denied") else name


def _write(call: Call, path: str | None) -> int:
    import base64

    data = _read_input()
    fields: dict[str, Any] = {"path": call.path(path or "")}
    try:
        fields["content"] = data.decode()
    except UnicodeDecodeError:
        fields |= {"content": base64.b64encode(data).decode(), "encoding": "base64"}
    etag = "*" if call.options.get("force") else call.options.get("etag")
    result = call.ask("write_file", etag=etag, dry_run=_is_dry(call), **fields)
    return _report(call, result, f"{result['path']}: {result['outcome']}, {result['bytes']} bytes")


def _edit(call: Call, path: str | None) -> int:
    if "old" not in call.options or "new" not in call.options:
        raise UsageError("files edit needs --old and --new", "holdfast files --help")
    edit = {
        "old": call.options["old"],
        "new": call.options["new"],
        "all": bool(call.options.get("all")),
    }
    result = call.ask(
        "edit_file",
        path=call.path(path or ""),
        edits=[edit],
        etag=call.options.get("etag"),
        dry_run=_is_dry(call),
    )
    return _report(call, result, result["diff"].rstrip("\n"))


def _patch(call: Call, path: str | None) -> int:
    """Apply a patch from standard input or from a file of the caller."""
    if path is None or path == "-":
        data = _read_input()
    else:
        with open(os.path.join(call.folder, path), "rb") as patch_file:
            data = patch_file.read(MAX_INPUT_BYTES + 1)
    try:
        patch = data.decode()
    except UnicodeDecodeError:
        raise UsageError("the patch is no UTF-8") from None
    root = call.options.get("root")
    result = call.ask("apply_patch", patch=patch, root=root, dry_run=_is_dry(call))
    lines = [f"{file['path']}: {file['outcome']}" + _counts(file) for file in result["files"]]
    return _report(call, result, "\n".join(lines))


def _counts(file: dict[str, Any]) -> str:
    counts = f" +{file.get('added', 0)} -{file.get('removed', 0)}"
    moved = f", {file['offset']} lines from where the patch says" if file.get("offset") else ""
    return counts + moved


def _undo(call: Call, path: str | None) -> int:
    fields: dict[str, Any] = {"force": bool(call.options.get("force"))}
    if path is not None and path.startswith("change-"):
        fields["change"] = path
    elif path is not None:
        fields["path"] = call.path(path)
    result = call.ask("undo_files", dry_run=_is_dry(call), **fields)
    lines = [f"{file['path']}: {file['outcome']}" for file in result["files"]]
    return _report(call, result, "\n".join([f"{result['undone']} is undone", *lines]))


def _changes(call: Call, path: str | None) -> int:
    fields: dict[str, Any] = {} if path is None else {"path": call.path(path)}
    result = call.ask("file_changes", limit=call.options.get("limit", 20), **fields)
    if call.is_json:
        call.emit(result)
        return 0
    rows = []
    for change in result["changes"]:
        named = ", ".join(f"{file['path']} ({_state(file)})" for file in change["files"][:3])
        more = f" and {len(change['files']) - 3} more" if len(change["files"]) > 3 else ""
        state = change.get("state", "done")
        what = change["command"] if state == "done" else f"{change['command']} ({state})"
        moment = durations.show_time(change["time"])
        rows.append((change["change"], moment, what, change["actor"], named + more))
    heads = ("CHANGE", "WHEN", "WHAT", "WHO", "FILES")
    call.say_table(heads, rows)
    return 0


def _state(file: dict[str, Any]) -> str:
    return f"{file['outcome']}, undone" if file.get("undone") else str(file["outcome"])


def _report(call: Call, result: dict[str, Any], text: str) -> int:
    if call.is_json:
        call.emit(result)
        return 0
    call.say(text)
    if result["dry_run"]:
        call.note("nothing was changed: this was only tried")
    return 0


def _is_dry(call: Call) -> bool:
    return bool(call.options.get("dry_run"))


def _read_input() -> bytes:
    data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise UsageError(f"more than {MAX_INPUT_BYTES // 1024**2} MiB")
    return data
