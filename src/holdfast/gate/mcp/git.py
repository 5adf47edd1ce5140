"""The tools about git: `git` reads, `git_change` changes. Each operation is a command."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer, rewrite_hint
from holdfast.gate.mcp.arguments import ToolArguments
from holdfast.gate.mcp.call import ToolCall
from holdfast.vocabulary.errors import UsageError

Operation = Literal["status", "diff", "log", "show", "blame", "branches", "checkpoints"]
Change = Literal[
    "add", "commit", "restore", "switch", "branch", "stash", "stash_pop", "stash_drop", "tag",
    "abort",
    "checkpoint", "restore_checkpoint",
]  # fmt: skip


class GitArguments(ToolArguments, frozen=True, kw_only=True):
    op: Operation
    rev: Annotated[str, Meta(description="commit, branch, or a..b")] | None = None
    paths: list[str] = []
    staged: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20
    cursor: str | None = None


_READING_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "status": (),
    "diff": ("rev", "paths", "staged", "cursor"),
    "log": ("rev", "paths", "limit", "cursor"),
    "show": ("rev", "paths", "cursor"),
    "blame": ("rev", "paths", "cursor"),
    "branches": (),
    "checkpoints": ("limit",),
}


async def git(call: ToolCall, given: GitArguments) -> Answer:
    takes = _READING_ARGUMENTS[given.op]
    fields: dict[str, Any] = {}
    for name in ("rev", "paths", "staged", "cursor"):
        value = getattr(given, name)
        if value and name not in takes:
            raise UsageError(f"op {given.op} takes no {name}")
        if value:
            fields[name] = value
    if "limit" in takes:
        fields["limit"] = given.limit
    if given.op == "blame":
        if len(given.paths) != 1:
            raise UsageError("op blame needs one path")
        fields["path"] = fields.pop("paths")[0]
    command = given.op if given.op == "checkpoints" else f"git_{given.op}"
    found = await call.ask(command, **fields)
    match given.op:
        case "status":
            return Answer(_status(found))
        case "log":
            return Answer(_log(found))
        case "branches":
            return Answer(_branches(found))
        case "checkpoints":
            return Answer(_checkpoints(found, given.limit))
        case _:
            return Answer(_text(found))


def _status(found: dict[str, Any]) -> str:
    where = found["branch"] or "no branch"
    head = f"on {where} at {(found['head'] or 'no commit yet')[:12]}"
    if found.get("upstream"):
        head += f", {found['upstream']} ahead {found.get('ahead')} behind {found.get('behind')}"
    lines = [head]
    for name in ("staged", "changed"):
        lines += [f"{name}: {_file(one)}" for one in found[name]]
    lines += _conflicts(found)
    lines += [f"untracked: {answers.escape_name(path)}" for path in found["untracked"]]
    if found["clean"] and not found["untracked"]:
        lines.append("clean")
    if found.get("stashes"):
        lines.append(f"stashes: {found['stashes']}")
    for name in ("under_way", "next"):
        if found.get(name):
            lines.append(f"{name.replace('_', ' ')}: {rewrite_hint(found[name])}")
    if not found.get("complete", True):
        counts = ", ".join(f"{key} {value}" for key, value in found["counts"].items())
        lines.append(f"-- not all are shown: {counts}")
    return "\n".join(lines)


def _file(one: dict[str, Any]) -> str:
    old = f" (was {answers.escape_name(one['old_path'])})" if one.get("old_path") else ""
    return f"{one['change']} {answers.escape_name(one['path'])}{old}"


def _conflicts(found: dict[str, Any]) -> list[str]:
    conflicts = found.get("conflicts") or ()
    return [f"conflict: {answers.escape_name(one['path'])} ({one['kind']})" for one in conflicts]


def _log(found: dict[str, Any]) -> str:
    lines = []
    for one in found["commits"]:
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one["time"]))
        names = f" ({', '.join(one['names'])})" if one.get("names") else ""
        lines.append(f"{one['commit'][:12]} {day} {one['author']}{names}: {one['subject']}")
    return _with_cursor(answers.fence(lines) if lines else "no commits", found)


def _branches(found: dict[str, Any]) -> str:
    lines = []
    for one in found["branches"]:
        mark = "*" if one.get("current") else " "
        track = f" [{one['upstream']} {one.get('track') or ''}]" if one.get("upstream") else ""
        lines.append(f"{mark} {one['name']} {one['commit'][:12]}{track} {one['subject']}")
    return _with_cursor(answers.fence(lines) if lines else "no branches", found)


def _checkpoints(found: dict[str, Any], limit: int) -> str:
    lines = []
    for one in found["checkpoints"]:
        made = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one["time"]))
        lines.append(f"{one['id']} {made} {answers.escape_name(one['note'])}".rstrip())
    more = "\n-- limit shows more" if len(lines) == limit else ""
    return f"{answers.fence(lines)}{more}" if lines else "no checkpoints"


def _text(found: dict[str, Any]) -> str:
    parts = []
    if found.get("stat"):
        parts.append(found["stat"].rstrip("\n"))
    lines = [answers.clean(line) for line in found["text"].split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    parts.append(answers.fence(lines) if lines else "no differences")
    parts += [f"note: {note}" for note in found.get("notes") or ()]
    return _with_cursor("\n".join(parts), found)


def _with_cursor(text: str, found: dict[str, Any]) -> str:
    if found.get("cursor"):
        return f"{text}\n-- goes on: next cursor {found['cursor']}"
    return text


class GitChangeArguments(ToolArguments, frozen=True, kw_only=True):
    op: Change
    paths: Annotated[
        list[str], Meta(description="commit stages these itself, also resolved ones")
    ] = []
    message: str | None = None
    rev: str | None = None
    name: Annotated[str, Meta(description="of the branch, tag or checkpoint")] | None = None
    staged: bool = False
    dry_run: bool = False


_CHANGES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "add": ("git_add", ("paths",), {}),
    "commit": ("git_commit", ("paths", "message"), {}),
    "restore": ("git_restore", ("paths", "rev", "staged"), {}),
    "switch": ("git_switch", ("name:branch", "rev"), {}),
    "branch": ("git_switch", ("name:branch", "rev"), {"create": True}),
    "stash": ("git_stash", ("paths", "message"), {"action": "push"}),
    "stash_pop": ("git_stash", (), {"action": "pop"}),
    "stash_drop": ("git_stash", (), {"action": "drop"}),
    "abort": ("git_abort", (), {}),
    "tag": ("git_tag", ("name:tag", "rev", "message"), {}),
    "checkpoint": ("checkpoint", ("message:note",), {}),
    "restore_checkpoint": ("restore_checkpoint", ("name:checkpoint",), {}),
}
"""For each operation: its command, its arguments (with their names there), and fixed fields."""
_CHANGE_ARGUMENTS = ("paths", "message", "rev", "name", "staged")


async def git_change(call: ToolCall, given: GitChangeArguments) -> Answer:
    command, takes, fixed = _CHANGES[given.op]
    names = {word.partition(":")[0]: word.rpartition(":")[2] for word in takes}
    fields: dict[str, Any] = dict(fixed)
    for name in _CHANGE_ARGUMENTS:
        value = getattr(given, name)
        if value and name not in names:
            raise UsageError(f"op {given.op} takes no {name}; it takes {', '.join(names) or '-'}")
        if value:
            fields[names[name]] = value
    if given.op == "commit" and not given.message:
        raise UsageError("op commit needs a message")
    if given.op in ("add", "restore") and not given.paths:
        raise UsageError(f"op {given.op} needs paths", 'paths ["."] means all')
    if given.op == "switch" and not (given.name or given.rev):
        raise UsageError("op switch needs a name or a rev", "op branch makes a new branch")
    if given.op in ("branch", "tag") and not given.name:
        raise UsageError(f"op {given.op} needs a name")
    if given.op == "checkpoint" and given.dry_run:
        raise UsageError("a checkpoint changes nothing, so there is no dry_run")
    if given.op != "checkpoint":
        fields["dry_run"] = given.dry_run
    done = await call.ask(command, **fields)
    return _change_answer(given.op, done)


def _change_answer(op: str, done: dict[str, Any]) -> Answer:
    if op == "checkpoint":
        return Answer(f"checkpoint {done['id']} (commit {done['commit'][:12]})")
    lines = [done.get("message") or "done"]
    if done.get("dry_run"):
        lines.insert(0, "dry run, nothing was changed:")
    if done.get("commit") and done.get("changed"):
        lines.append(f"commit {done['commit'][:12]}")
    lines += [_file(one) for one in (done.get("files") or ())[:100]]
    lines += _conflicts(done)
    if done.get("next"):
        lines.append(f"next: {rewrite_hint(done['next'])}")
    saved = done.get("checkpoint") or (done.get("saved") or {}).get("id")
    if saved:
        lines.append(f"before that: checkpoint {saved}")
    lines += [f"note: {note}" for note in done.get("notes") or ()]
    return Answer("\n".join(lines), is_error=bool(done.get("conflicts")))
