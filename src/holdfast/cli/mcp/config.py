"""`holdfast mcp config`: shows or writes the configuration of an assistant's program.

Everything else in the program's file stays, and the earlier file is kept as a backup beside it. In
a file of the user, which holds the entries of several projects, each project has its own.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from holdfast.cli.call import Call
from holdfast.system.assistant_programs import (
    NAME,
    PROGRAMS,
    AssistantProgram,
    Entry,
    entry_of,
    path_of,
    toml_lines,
)
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.names import closest


def config(call: Call) -> int:
    if len(call.operands) < 2:
        if call.options.get("write"):
            raise UsageError("whose file?", f"known: {', '.join(PROGRAMS)}")
        return _show_all(call)
    word = call.operands[1]
    client = PROGRAMS.get(word)
    if client is None:
        guess = closest(word, list(PROGRAMS))
        meant = f'; did you mean "{guess}"?' if guess else ""
        raise UsageError(f'no client "{word}"{meant}', f"known: {', '.join(PROGRAMS)}")
    path = _path(call, client)
    ours = _entry(call, client, path)
    if call.options.get("write"):
        return _write(call, ours, path)
    if call.is_json:
        call.emit({"file": path, "section": client.section, ours.name: ours.values})
        return 0
    call.note(f"{client.title} reads {path}; --write puts this into it")
    call.say(ours.text)
    return 0


def _path(call: Call, program: AssistantProgram) -> str:
    home = call.environ.get("HOME") or os.path.expanduser("~")
    return path_of(program, call.places.project, home)


def _entry(call: Call, program: AssistantProgram, path: str) -> Entry:
    options = [flag for flag in ("--start", "--read-only") if call.options.get(_name_of(flag))]
    if "toolsets" in call.options:
        options += ["--toolsets", call.options["toolsets"]]
    text = (_read(path) or "") if program.is_users else ""
    return entry_of(
        program,
        call.places.project,
        options,
        own=os.path.realpath(sys.argv[0]),
        search_path=call.environ.get("PATH") or "",
        text=text,
    )


def _name_of(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _show_all(call: Call) -> int:
    if call.is_json:
        call.emit({name: _path(call, client) for name, client in PROGRAMS.items()})
        return 0
    width = max(len(name) for name in PROGRAMS)
    for name, client in PROGRAMS.items():
        call.say(f"{name:<{width}}  {client.title:<14}  {_path(call, client)}")
    return 0


def _write(call: Call, ours: Entry, path: str) -> int:
    client = ours.program
    before = _read(path)
    make = _in_toml if path.endswith(".toml") else _in_json
    try:
        after = make(ours, before or "")
    except (ValueError, AttributeError, TypeError):
        raise Failed(
            f"{path} is not understood (comments?), so nothing was changed",
            f"add this by hand: {ours.text}",
        ) from None
    if "\r\n" in (before or ""):
        after = after.replace("\n", "\r\n")
    if after == before:
        call.say(f"{path} says it already")
        return 0
    backup = _back_up(path, before)
    _replace(path, after)
    kept = f"; what it was is in {backup}" if backup else ""
    named = "" if ours.name == NAME else f" as {ours.name}"
    call.say(f"{path}: {client.title} knows Holdfast now{named}{kept}")
    if client.note:
        call.note(client.note)
    return 0


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}", "nothing was changed") from None


def _in_json(ours: Entry, before: str) -> str:
    """The file with our entry; raises ValueError and others if something else would be lost."""
    value = json.loads(before, object_pairs_hook=_unique_keys) if before.strip() else {}
    servers = value.setdefault(ours.program.section, {})
    theirs = servers.get(ours.name) or {}
    servers[ours.name] = {**ours.program.defaults, **theirs, **ours.owned}
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _in_toml(ours: Entry, before: str) -> str:
    """The file with our entry; every other line stays as it is."""
    section = ours.program.section
    after = _with_table(ours, before)
    was, now = _parsed(before), _parsed(after)
    if was is None or now is None:
        # This Python has no TOML parser, so only simple files are changed.
        rest = before.replace(ours.head, "")
        rest = rest.replace(f"[{section}.{ours.name}.", "[")
        keys = [line.partition("=")[0].strip() for line in rest.splitlines()]
        is_odd = any(ours.name in key or key.startswith(section) for key in keys)
        if is_odd or '"""' in rest or "'''" in rest:
            raise ValueError("not plain enough")
        return after
    new = now.setdefault(section, {}).pop(ours.name, {})
    old = was.setdefault(section, {}).pop(ours.name, {})
    if was != now or new != {**ours.program.defaults, **old, **ours.owned}:
        raise ValueError("something else would be changed")
    return after


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        tomllib = importlib.import_module("tomllib")
    except ImportError:
        return None
    found: dict[str, Any] = tomllib.loads(text)
    return found


def _with_table(ours: Entry, before: str) -> str:
    head = ours.head
    kept: list[str] = []
    found: set[str] = set()
    is_ours, is_listing, place = False, False, None
    for line in before.splitlines():
        stripped = line.strip()
        if is_listing:
            is_listing = "]" not in stripped
            continue
        if stripped.startswith("["):
            is_ours = stripped.partition("#")[0].strip() == head
            if is_ours:
                place = len(kept)
                continue
        key = stripped.partition("=")[0].strip()
        is_listing = is_ours and key == "args" and "]" not in stripped
        if is_ours:
            found.add(key)
        if not is_ours or (stripped and key not in ours.owned):
            # Keys that the user added to our table stay in it.
            kept.append(line)
    missing = {key: one for key, one in ours.program.defaults.items() if key not in found}
    block = [head, *toml_lines({**ours.owned, **missing})]
    if place is None:
        gap = [""] if kept and kept[-1].strip() else []
        kept += [*gap, *block]
    else:
        kept[place:place] = block
    return "\n".join(kept) + "\n"


def _back_up(path: str, before: str | None) -> str | None:
    if before is None:
        return None
    for number in range(1, 100):
        backup = f"{path}.backup-{number}"
        try:
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with open(fd, "w", encoding="utf-8", newline="") as file:
            file.write(before)
        return backup
    raise Failed(f"there are too many backups beside {path}", "remove some of them")


def _replace(path: str, text: str) -> None:
    """Replace the file in one step; a link stays a link."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.{os.getpid()}.new"
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.replace(new, path)
    except OSError:
        os.unlink(new)
        raise
