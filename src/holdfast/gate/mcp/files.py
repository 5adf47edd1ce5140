"""The tools about files: read, edit, write, search."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer, Image
from holdfast.gate.mcp.arguments import ToolArguments
from holdfast.gate.mcp.call import ToolCall
from holdfast.gate.mcp.processes import MaxBytes
from holdfast.vocabulary.errors import Refused, UsageError
from holdfast.vocabulary.files import Edit

Etag = Annotated[str, Meta(description="refuse if the file is no longer this one")]
_CURSOR = Meta(description="read on from here")


_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_MOST_IMAGE_BYTES = 3 * 1024 * 1024
"""Clients refuse larger ones, and the supervisor's answers have a limit."""


class ReadArguments(ToolArguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="file or folder, relative to the project")]
    offset: Annotated[int, Meta(ge=1, description="first line or entry")] | None = None
    from_byte: Annotated[int, Meta(ge=0, description="to go on within a long line")] | None = None
    limit: Annotated[int, Meta(ge=1, le=5000)] = 400
    tail: Annotated[int, Meta(ge=1, le=5000, description="last lines instead")] | None = None
    max_bytes: MaxBytes = answers.DEFAULT_BYTES


async def read(call: ToolCall, given: ReadArguments) -> Answer:
    if sum(one is not None for one in (given.offset, given.tail, given.from_byte)) > 1:
        raise UsageError("read takes offset, tail or from_byte, one of them")
    if given.path in ("", ".", "/"):
        return await _list_folder(call, given, "" if given.path != "/" else given.path)
    most = answers.bound_bytes(given.max_bytes)
    fields: dict[str, Any] = {"path": given.path, "max_bytes": most}
    if given.tail is not None:
        fields["tail"] = given.tail
    elif given.from_byte is not None:
        fields["from_byte"] = given.from_byte
    else:
        fields["limit"] = given.limit
        if given.offset is not None:
            fields["offset"] = given.offset
    try:
        found = await call.ask("read_file", **fields)
    except Refused as error:
        if "list_files" not in error.hint:
            raise
        return await _list_folder(call, given, given.path)
    kind = _IMAGES.get(os.path.splitext(given.path)[1].lower())
    if kind is not None and found["encoding"] == "binary":
        return await _image(call, given.path, kind, found)
    return Answer(_content(found, given, most))


async def _image(call: ToolCall, path: str, kind: str, found: dict[str, Any]) -> Answer:
    name = answers.escape_name(found["path"])
    text = f"{name}, {found['size']} bytes, etag {found['etag']}, {kind}"
    if found["size"] > _MOST_IMAGE_BYTES:
        return Answer(f"{text}\n-- too large to be shown: at most {_MOST_IMAGE_BYTES} bytes")
    whole = await call.ask(
        "read_file", path=path, encoding="base64", from_byte=0, max_bytes=_MOST_IMAGE_BYTES
    )
    return Answer(text, image=Image(whole["content"], kind))


def _content(found: dict[str, Any], given: ReadArguments, most: int) -> str:
    """Return a head, numbered lines, and how to continue."""
    total = found.get("total_lines")
    head = [answers.escape_name(found["path"]), f"{found['size']} bytes"]
    head += [f"{total} lines"] if total is not None else []
    head.append(f"etag {found['etag']}")
    if found["encoding"] == "binary":
        return ", ".join([*head, "binary: not shown"])
    if found["encoding"] != "utf-8":
        head.append(found["encoding"])
    if found.get("line_ending") not in (None, "lf"):
        head.append(f"line ends {found['line_ending']}")
    if found.get("lossy"):
        head.append("bytes that are no text are shown as U+FFFD")
    text = found["content"]
    if not text and total and (found.get("first_line") or 0) > total:
        return f"{', '.join(head)}\n-- nothing there: the last line is {total}"
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    first = found.get("first_line")
    if first is not None:
        lines = [f"{number}\t{line}" for number, line in enumerate(lines, first)]
    if given.tail is not None:
        return "\n".join([", ".join(head), *_tail(lines, first, total, given.tail, most)])
    shown, size, last = [], 0, None
    for place, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > most and place:
            last = None if first is None else first + place
            break
        # A line that was cut says where it goes on, so nothing more of it is cut away here.
        is_cut = bool(found.get("truncated")) and place == len(lines) - 1
        shown.append(line if size <= most or is_cut else answers.shorten(line, most))
    end = ""
    if last is not None:
        end = f"\n-- goes on: offset {last}"
    elif found.get("truncated"):
        then = found.get("next_offset")
        then_line = f"; the next line is offset {(first or 0) + len(lines)}" if first else ""
        byte = found.get("next_byte")
        within = f": from_byte {byte} goes on within it" if byte is not None else ""
        end = (
            f"\n-- goes on: offset {then}"
            if then
            else f"\n-- its last line is cut{within}{then_line}"
        )
    return f"{', '.join(head)}\n{answers.fence(shown)}{end}"


def _tail(
    lines: list[str], first: int | None, total: int | None, asked: int, most: int
) -> list[str]:
    """Return the newest lines that fit, and say how many of the wanted ones are missing."""
    shown, left_out = answers.newest_lines(lines, most)
    fenced = answers.fence([answers.shorten(line, most) for line in shown])
    if first is None or total is None:
        return [fenced, "-- older lines left out"] if left_out else [fenced]
    wanted = max(1, total - asked + 1)
    left_out += first - wanted
    note = f"-- {left_out} older lines left out: offset {wanted} begins there"
    return [fenced, note] if left_out > 0 else [fenced]


async def _list_folder(call: ToolCall, given: ReadArguments, path: str) -> Answer:
    skipped = (given.offset or 1) - 1
    found = await call.ask("list_files", path=path, hidden=True, limit=skipped + given.limit)
    lines = []
    for entry in found["entries"]:
        name = answers.escape_name(entry["path"])
        mark = {"directory": "/", "link": "@"}.get(entry["kind"], "")
        size = f"  {entry['size']}" if entry.get("size") is not None and not mark else ""
        target = f" -> {answers.escape_name(entry['target'])}" if entry.get("target") else ""
        denied = "  (denied)" if entry.get("denied") else ""
        lines.append(f"{name}{mark}{target}{size}{denied}")
    kept = answers.oldest_lines(lines[skipped:], answers.bound_bytes(given.max_bytes))
    notes = [f"{found['ignored']} ignored"] if found.get("ignored") else []
    if found.get("truncated") or skipped + len(kept) < len(lines):
        offset = skipped + len(kept) + 1
        notes.append(f"goes on: offset {offset}" if kept else "what else is here, `search` finds")
    end = f"\n-- {len(kept)} entries" + "".join(f"; {note}" for note in notes)
    return Answer((answers.fence(kept) if kept else "empty") + end)


class EditArguments(ToolArguments, frozen=True, kw_only=True):
    path: str | None = None
    edits: Annotated[
        list[Edit], Meta(description="old must match once, or all be true; all or none")
    ] = []
    patch: (
        Annotated[
            str,
            Meta(
                description="or a unified diff of several files; git's headers make, delete, rename"
            ),
        ]
        | None
    ) = None
    undo: (
        Annotated[str, Meta(description="or a change to take back; `last`: your last one")] | None
    ) = None
    etag: Etag | None = None
    dry_run: bool = False


async def edit(call: ToolCall, given: EditArguments) -> Answer:
    ways = [bool(given.edits), given.patch is not None, given.undo is not None]
    if sum(ways) != 1:
        raise UsageError("edit needs `edits`, `patch` or `undo`, one of them")
    if given.etag is not None and not given.edits:
        raise UsageError("only `edits` take an etag")
    if given.patch is not None:
        return await _apply_patch(call, given, given.patch)
    if given.undo is not None:
        return await _undo(call, given, given.undo)
    if given.path is None:
        raise UsageError("`edits` need a path")
    edits = [{"old": one.old, "new": one.new, "all": one.all} for one in given.edits]
    fields: dict[str, Any] = {"path": given.path, "edits": edits, "dry_run": given.dry_run}
    if given.etag is not None:
        fields["etag"] = given.etag
    done = await call.ask("edit_file", **fields)
    lines = answers.head_and_tail(done["diff"].splitlines(), answers.DEFAULT_BYTES)
    what = "would change" if given.dry_run else "changed"
    etag = "" if given.dry_run else f", etag {done['etag']}{_undoes(done)}"
    path = answers.escape_name(done["path"])
    return Answer(f"{what} {path}{etag}\n{answers.fence(lines)}")


def _undoes(done: dict[str, Any]) -> str:
    return f", undo {done['change']}" if done.get("change") else ""


async def _apply_patch(call: ToolCall, given: EditArguments, patch: str) -> Answer:
    if given.path is not None:
        raise UsageError("a patch names its files itself, so it takes no path")
    done = await call.ask("apply_patch", patch=patch, dry_run=given.dry_run)
    lines = ["dry run, nothing was changed:"] if given.dry_run else []
    for one in done["files"]:
        old = one.get("previous_path")
        was = f" (was {answers.escape_name(old)})" if old else ""
        counts = f" +{one.get('added', 0)} -{one.get('removed', 0)}"
        etag = f", etag {one['etag']}" if one.get("etag") and not given.dry_run else ""
        path = answers.escape_name(one["path"])
        lines.append(f"{one['outcome']} {path}{was}{counts}{etag}")
    return Answer("\n".join(lines) + (f"\n--{_undoes(done)[1:]}" if done.get("change") else ""))


async def _undo(call: ToolCall, given: EditArguments, change: str) -> Answer:
    fields: dict[str, Any] = {"dry_run": given.dry_run}
    if change != "last":
        fields["change"] = change
    if given.path is not None:
        fields["path"] = given.path
    done = await call.ask("undo_files", **fields)
    head = "would undo" if given.dry_run else "undone:"
    lines = [f"{head} {done['undone']}"]
    lines += [f"{one['outcome']} {answers.escape_name(one['path'])}" for one in done["files"]]
    return Answer("\n".join(lines) + (f"\n--{_undoes(done)[1:]}" if done.get("change") else ""))


class WriteArguments(ToolArguments, frozen=True, kw_only=True):
    path: str
    content: str
    etag: Annotated[str, Meta(description="of the file to replace; * for any")] | None = None


async def write(call: ToolCall, given: WriteArguments) -> Answer:
    fields: dict[str, Any] = {"path": given.path, "content": given.content}
    if given.etag is not None:
        fields["etag"] = given.etag
    done = await call.ask("write_file", **fields)
    path = answers.escape_name(done["path"])
    facts = f"{done['bytes']} bytes, etag {done['etag']}{_undoes(done)}"
    return Answer(f"{done['outcome']} {path}: {facts}")


class SearchArguments(ToolArguments, frozen=True, kw_only=True):
    pattern: str
    path: str | None = None
    glob: list[str] = []
    logs: Annotated[
        list[str], Meta(description="not in files: in what these services printed; * for all")
    ] = []
    mode: Literal["content", "files", "count"] = "content"
    context: Annotated[int, Meta(ge=0, le=20)] = 0
    literal: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    cursor: Annotated[str, _CURSOR] | None = None


async def search(call: ToolCall, given: SearchArguments) -> Answer:
    if given.logs:
        return await _search_logs(call, given)
    fields: dict[str, Any] = {
        "pattern": given.pattern,
        "glob": given.glob,
        "mode": given.mode,
        "context": given.context,
        "literal": given.literal,
        "limit": given.limit,
    }
    for name in ("path", "cursor"):
        if (value := getattr(given, name)) is not None:
            fields[name] = value
    found = await call.ask("search", **fields)
    match given.mode:
        case "content":
            lines = [_hit(hit) for hit in found["hits"]]
        case "files":
            lines = [answers.escape_name(path) for path in found["files"]]
        case _:
            counts = found["counts"]
            lines = [f"{answers.escape_name(one['path'])}: {one['count']}" for one in counts]
    end = [f"-- {len(lines)} {'lines' if given.mode == 'content' else 'files'}"]
    if not found["complete"] and found.get("cursor"):
        end.append(f"next cursor {found['cursor']}")
    end += [f"note: {note}" for note in found.get("notes") or ()]
    shown = f"{answers.fence(lines)}\n" if lines else ""
    return Answer(shown + "; ".join(end))


async def _search_logs(call: ToolCall, given: SearchArguments) -> Answer:
    if given.path is not None or given.glob or given.context or given.mode != "content":
        raise UsageError("with logs, search takes no path, glob, context or mode")
    services = [] if "*" in given.logs else given.logs
    fields: dict[str, Any] = {"pattern": given.pattern, "services": services}
    fields |= {"literal": given.literal, "limit": given.limit}
    if given.cursor is not None:
        fields["cursor"] = given.cursor
    found = await call.ask("search_logs", **fields)
    lines = [_log_hit(hit) for hit in found["hits"]]
    end = [f"-- {len(lines)} lines"]
    if not found["complete"] and found.get("cursor"):
        end.append(f"next cursor {found['cursor']}")
    end += [f"note: {note}" for note in found.get("notes") or ()]
    shown = f"{answers.fence(lines)}\n" if lines else ""
    return Answer(shown + "; ".join(end))


def _log_hit(hit: dict[str, Any]) -> str:
    when = "-" if not hit.get("time") else answers.format_moment(hit["time"])
    return f"{hit['service']} run {hit['run']} {when}: {answers.clean(hit['text'])}"


def _hit(hit: dict[str, Any]) -> str:
    mark = "-" if hit.get("column") is None else ":"
    path = answers.escape_name(hit["path"])
    return f"{path}{mark}{hit['line']}{mark}{answers.clean(hit['text'])}"
