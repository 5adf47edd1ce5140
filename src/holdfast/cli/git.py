"""`holdfast git` and `holdfast checkpoint`: repositories, without hooks and without push."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK_BYTES = 64_000
CHECKPOINT_HEADS = ("ID", "MADE", "BRANCH", "SESSION", "NOTE")
READS = ("status", "diff", "log", "show", "blame", "branches")
CHANGES = ("add", "commit", "restore", "switch", "stash", "tag", "abort")


@Verb(
    "git",
    "Look at a git repository and change it, kept from running its hooks",
    operands="OPERATION [ARGUMENT…]",
    least=1,
    most=None,
    options=(
        Option("--repository", "a folder in it; this one by default", "PATH"),
        Option("--rev", "a commit, branch or tag, or a range a..b", "REV"),
        Option("--staged", "diff, restore: the index"),
        Option("-m --message", "commit, stash, tag: what to say", "TEXT"),
        Option("--create", "switch: make the branch"),
        Option("--remote", "branches: those of remotes, too"),
        Option("--number", "stash: which one; 0 is the newest", "N", "number"),
        Option("-n --limit", "log, blame, branches: at most so many", "N", "number"),
        Option("--dry-run", "only tell what would be done"),
    ),
    commands=(
        *("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
        *("git_add", "git_commit", "git_restore", "git_switch", "git_stash", "git_tag"),
        "git_abort",
    ),
    about=(
        "OPERATION is status, diff, log, show, blame or branches; or add, commit, restore,\n"
        "switch, stash, tag or abort (a merge). ARGUMENTs are paths; for switch and tag a\n"
        "name, for show a commit, for stash push, pop, apply, drop or list. Changes take a\n"
        "root that may be written: `files: {roots: {project: {path: ., write: true}}}`.\n"
        "Nothing is pushed."
    ),
    examples=(
        ("holdfast git status", "what is staged, changed, untracked"),
        ("holdfast git diff --staged src", "what would be committed of a folder"),
        ("holdfast git commit -m 'fix the port' src/app.py", "this file and nothing else"),
        ("holdfast git switch topic --create", "on a new branch"),
    ),
)
def git(call: Call) -> int:
    operation, words = call.operands[0], call.operands[1:]
    if operation not in (*READS, *CHANGES):
        raise UsageError(
            f'"{operation}" is none of {", ".join((*READS, *CHANGES))}', "push is not here"
        )
    fields = _fields(call)
    if operation in CHANGES:
        return _change(call, operation, words, fields)
    known: dict[str, Callable[[Call, list[str], dict[str, Any]], int]] = {
        "status": _status, "diff": _text("git_diff"), "show": _show, "log": _log,
        "blame": _blame, "branches": _branches,
    }  # fmt: skip
    return known[operation](call, words, fields)


def _fields(call: Call) -> dict[str, Any]:
    names = ("rev", "staged", "message", "create", "remote", "number", "limit", "dry_run")
    found = {name: call.options[name] for name in names if name in call.options}
    found["repository"] = call.path(call.options.get("repository", "."))
    return found


def _paths(call: Call, words: list[str]) -> list[str]:
    return [call.path(word) for word in words]


def _status(call: Call, words: list[str], fields: dict[str, Any]) -> int:
    result = call.ask("git_status", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    call.say(_position(result))
    for name, colour in (("staged", "green"), ("changed", "yellow")):
        for file in result[name]:
            old = f"{file['old_path']} → " if file.get("old_path") else ""
            call.say(f"  {call.paint(f'{name}:', colour)} {file['change']} {old}{file['path']}")
    for conflict in result["conflicts"]:
        call.say(f"  {call.paint('conflict:', 'red')} {conflict['kind']} {conflict['path']}")
    for path in result["untracked"]:
        call.say(f"  untracked: {path}")
    if not any(result[name] for name in ("staged", "changed", "conflicts", "untracked")):
        call.say("  nothing to commit")
    if result["next"]:
        call.say(f"  next: {result['next']}")
    if not result["complete"]:
        call.note("there is more: " + ", ".join(f"{n} {k}" for k, n in result["counts"].items()))
    return 0


def _position(result: dict[str, Any]) -> str:
    place = f"on {result['branch']}" if result["branch"] else f"at {(result['head'] or '')[:9]}"
    if result["head"] is None:
        place += ", no commit yet"
    if result["upstream"]:
        place += f", {result['ahead'] or 0} ahead and {result['behind'] or 0} behind "
        place += result["upstream"]
    if result["under_way"]:
        place += f", in a {result['under_way']}"
    return place


def _text(command: str) -> Callable[[Call, list[str], dict[str, Any]], int]:
    def show(call: Call, words: list[str], fields: dict[str, Any]) -> int:
        fields["paths"] = _paths(call, words)
        return _pages(call, command, fields)

    return show


def _show(call: Call, words: list[str], fields: dict[str, Any]) -> int:
    if words:
        fields["rev"] = words[0]
    fields["paths"] = _paths(call, words[1:])
    return _pages(call, "git_show", fields)


def _blame(call: Call, words: list[str], fields: dict[str, Any]) -> int:
    if len(words) != 1:
        raise UsageError("git blame needs one path", "holdfast git blame PATH")
    return _pages(call, "git_blame", {**fields, "path": call.path(words[0])})


def _pages(call: Call, command: str, fields: dict[str, Any]) -> int:
    """Write a long text, which comes in pieces."""
    result = call.ask(command, **fields, max_bytes=CHUNK_BYTES)
    if call.is_json:
        call.emit(result)
        return 0
    notes = result["notes"]
    while True:
        call.write(result["text"])
        if result["cursor"] is None or ("limit" in fields and command == "git_blame"):
            break
        result = call.ask(command, **fields, max_bytes=CHUNK_BYTES, cursor=result["cursor"])
    for note in notes:
        call.note(note)
    return 0


def _log(call: Call, words: list[str], fields: dict[str, Any]) -> int:
    result = call.ask("git_log", **fields, paths=_paths(call, words))
    if call.is_json:
        call.emit(result)
        return 0
    for commit in result["commits"]:
        names = f" ({', '.join(commit['names'])})" if commit["names"] else ""
        moment = durations.show_time(commit["time"])
        head = call.paint(commit["commit"][:9], "yellow")
        call.say(f"{head} {moment} {commit['author']}: {commit['subject']}{names}")
    if not result["complete"]:
        call.note("there is more: --limit")
    return 0


def _branches(call: Call, words: list[str], fields: dict[str, Any]) -> int:
    result = call.ask("git_branches", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    for branch in result["branches"]:
        mark = "*" if branch.get("current") else " "
        track = (
            f" [{branch['upstream']}: {branch.get('track') or 'even'}]"
            if branch.get("upstream")
            else ""
        )
        call.say(f"{mark} {branch['name']} {branch['commit'][:9]}{track} {branch['subject']}")
    return 0


def _change(call: Call, operation: str, words: list[str], fields: dict[str, Any]) -> int:
    if operation in ("switch", "tag"):
        name = "branch" if operation == "switch" else "tag"
        if len(words) > 1 or (not words and operation == "tag"):
            raise UsageError(f"git {operation} takes one name", f"holdfast git {operation} NAME")
        if words:
            fields[name] = words[0]
    elif operation == "stash":
        fields["action"] = words[0] if words else "push"
        fields["paths"] = _paths(call, words[1:])
    elif operation != "abort":
        fields["paths"] = _paths(call, words)
    elif words:
        raise UsageError("git abort takes no arguments", "holdfast git abort")
    if operation == "commit" and "message" not in fields:
        raise UsageError("a commit needs a message", "holdfast git commit -m TEXT")
    result = call.ask(f"git_{operation}", **fields)
    if call.is_json:
        call.emit(result)
    else:
        _report_change(call, result)
    return 1 if result["conflicts"] else 0


def _report_change(call: Call, result: dict[str, Any]) -> None:
    call.say(result["message"])
    for file in result["files"]:
        call.say(f"  {file['change']} {file['path']}")
    for conflict in result["conflicts"]:
        call.say(f"  {call.paint('conflict:', 'red')} {conflict['kind']} {conflict['path']}")
    if result["next"]:
        call.say(f"next: {result['next']}")
    if result["checkpoint"]:
        call.say(f"what was there: holdfast checkpoint restore {result['checkpoint']}")
    for note in result["notes"]:
        call.note(note)


@Verb(
    "checkpoint",
    "Save the files of a repository, and restore them",
    operands="[create|ls|restore] [ID]",
    most=2,
    options=(
        Option("--repository", "a folder in it; this one by default", "PATH"),
        Option("-m --message", "what to remember of it", "TEXT"),
        Option("--session", "ls: only of this session", "SESSION"),
        Option("-n --limit", "ls: at most so many", "N", "number"),
        Option("--dry-run", "restore: only tell what would be changed"),
    ),
    commands=("checkpoint", "checkpoints", "restore_checkpoint"),
    about=(
        "Untracked files are kept, too; ignored ones are not. Work tree, index and branches\n"
        "stay as they are. `restore` keeps what is there in a further checkpoint first.\n"
        "Before the first change of an assistant's session one is made by itself."
    ),
    examples=(
        ("holdfast checkpoint -m 'before the rename'", "now"),
        ("holdfast checkpoint ls", "which there are"),
        ("holdfast checkpoint restore", "the newest"),
    ),
)
def checkpoint(call: Call) -> int:
    action = call.operands[0] if call.operands else "create"
    name = call.operands[1] if len(call.operands) > 1 else None
    repository = call.path(call.options.get("repository", "."))
    if action == "create" and name is None:
        note = call.options.get("message", "")
        result = call.ask("checkpoint", repository=repository, note=note)
        if call.is_json:
            call.emit(result)
        else:
            call.say(f"checkpoint {result['id']}")
            for path in result.get("skipped") or ():
                call.note(f"{path} is too large and not in it")
        return 0
    if action in ("ls", "list") and name is None:
        return _list_checkpoints(call, repository)
    if action != "restore":
        raise UsageError(f'"{action}" is none of create, ls, restore', "holdfast checkpoint --help")
    is_dry = bool(call.options.get("dry_run"))
    result = call.ask("restore_checkpoint", repository=repository, checkpoint=name, dry_run=is_dry)
    if call.is_json:
        call.emit(result)
        return 0
    call.say(f"{result['restored']['id']}: {result['message']}")
    for file in result["files"]:
        call.say(f"  {file['change']} {file['path']}")
    if result["saved"] is not None:
        call.say(f"what was there: holdfast checkpoint restore {result['saved']['id']}")
    return 0


def _list_checkpoints(call: Call, repository: str) -> int:
    fields = {name: call.options[name] for name in ("session", "limit") if name in call.options}
    result = call.ask("checkpoints", repository=repository, **fields)
    if call.is_json:
        call.emit(result)
        return 0
    rows = [
        (
            kept["id"],
            durations.show_time(kept["time"]),
            kept["branch"] or "-",
            kept["session"] or "-",
            kept["note"] or "-",
        )
        for kept in result["checkpoints"]
    ]
    if not rows:
        call.say("no checkpoints")
        return 0
    call.say_table(CHECKPOINT_HEADS, rows)
    return 0
