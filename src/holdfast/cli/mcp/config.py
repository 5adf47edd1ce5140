"""`holdfast mcp config`: shows or writes the configuration of an assistant's program.

Everything else in the program's file stays, and the earlier file is kept as a backup beside it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.cli.call import Call
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.names import closest

NAME = "holdfast"


class AssistantProgram(NamedTuple):
    """A program that assistants run in, and its configuration file."""

    title: str
    file: str
    """Relative to the project, or with `~` to the user's home."""
    section: str
    """The key that holds the servers; in TOML the table."""
    entry: Callable[[str, list[str]], dict[str, Any]]


def _plain(command: str, args: list[str]) -> dict[str, Any]:
    return {"command": command, "args": args}


def _typed(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": command, "args": args}


def _local(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": [command, *args], "enabled": True}


_DESKTOP = (
    "~/Library/Application Support/Claude" if sys.platform == "darwin" else "~/.config/Claude"
)
CLIENTS: dict[str, AssistantProgram] = {
    "claude": AssistantProgram("Claude Code", ".mcp.json", "mcpServers", _plain),
    "claude-desktop": AssistantProgram(
        "Claude Desktop", f"{_DESKTOP}/claude_desktop_config.json", "mcpServers", _plain
    ),
    "codex": AssistantProgram("Codex", "~/.codex/config.toml", "mcp_servers", _plain),
    "gemini": AssistantProgram("Gemini CLI", ".gemini/settings.json", "mcpServers", _plain),
    "cursor": AssistantProgram("Cursor", ".cursor/mcp.json", "mcpServers", _plain),
    "vscode": AssistantProgram("VS Code", ".vscode/mcp.json", "servers", _typed),
    "windsurf": AssistantProgram(
        "Windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers", _plain
    ),
    "zed": AssistantProgram("Zed", "~/.config/zed/settings.json", "context_servers", _plain),
    "opencode": AssistantProgram("opencode", "opencode.json", "mcp", _local),
}


def config(call: Call) -> int:
    if len(call.operands) < 2:
        if call.options.get("write"):
            raise UsageError("whose file?", f"known: {', '.join(CLIENTS)}")
        return _show_all(call)
    word = call.operands[1]
    client = CLIENTS.get(word)
    if client is None:
        guess = closest(word, list(CLIENTS))
        meant = f'; did you mean "{guess}"?' if guess else ""
        raise UsageError(f'no client "{word}"{meant}', f"known: {', '.join(CLIENTS)}")
    path = _path(call, client)
    command, args = _command(call, client)
    if call.options.get("write"):
        return _write(call, client, path, command, args)
    if call.is_json:
        call.emit({"file": path, "section": client.section, NAME: client.entry(command, args)})
        return 0
    call.note(f"{client.title} reads {path}; --write puts this into it")
    call.say(_text(client, command, args))
    return 0


def _show_all(call: Call) -> int:
    if call.is_json:
        call.emit({name: _path(call, client) for name, client in CLIENTS.items()})
        return 0
    width = max(len(name) for name in CLIENTS)
    for name, client in CLIENTS.items():
        call.say(f"{name:<{width}}  {client.title:<14}  {_path(call, client)}")
    return 0


def _path(call: Call, client: AssistantProgram) -> str:
    if client.file.startswith("~"):
        home = call.environ.get("HOME") or os.path.expanduser("~")
        return os.path.join(home, client.file[2:])
    return os.path.join(call.places.project, client.file)


def _command(call: Call, client: AssistantProgram) -> tuple[str, list[str]]:
    """The command by which the client starts the relay. In a file of the user it must name the
    project."""
    args = ["mcp"]
    if client.file.startswith("~"):
        args += ["-C", call.places.project]
    args += [flag for flag in ("--start", "--read-only") if call.options.get(_option_name(flag))]
    if "toolsets" in call.options:
        args += ["--toolsets", call.options["toolsets"]]
    own = os.path.realpath(sys.argv[0])
    is_program = os.path.basename(own) == NAME and os.access(own, os.X_OK)
    if is_program and not client.file.startswith("~") and _is_in_path(call, own):
        return NAME, args
    return (own, args) if is_program else (sys.executable, ["-m", "holdfast", *args])


def _option_name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _is_in_path(call: Call, own: str) -> bool:
    """Return whether `holdfast` in PATH is this program."""
    for folder in (call.environ.get("PATH") or "").split(os.pathsep):
        found = os.path.join(folder, NAME)
        if folder and os.access(found, os.X_OK):
            return os.path.realpath(found) == own
    return False


def _text(client: AssistantProgram, command: str, args: list[str]) -> str:
    if client.file.endswith(".toml"):
        return _toml(client, command, args)
    value = {client.section: {NAME: client.entry(command, args)}}
    return json.dumps(value, indent=2, ensure_ascii=False)


def _toml(client: AssistantProgram, command: str, args: list[str]) -> str:
    words = ", ".join(json.dumps(word, ensure_ascii=False) for word in args)
    text = json.dumps(command, ensure_ascii=False)
    return f"[{client.section}.{NAME}]\ncommand = {text}\nargs = [{words}]"


def _write(call: Call, client: AssistantProgram, path: str, command: str, args: list[str]) -> int:
    before = _read(path)
    make = _in_toml if path.endswith(".toml") else _in_json
    try:
        after = make(client, before or "", command, args)
    except (ValueError, AttributeError, TypeError):
        raise Failed(
            f"{path} is not understood (comments?), so nothing was changed",
            f"add this by hand: {_text(client, command, args)}",
        ) from None
    if "\r\n" in (before or ""):
        after = after.replace("\n", "\r\n")
    if after == before:
        call.say(f"{path} says it already")
        return 0
    backup = _back_up(path, before)
    _replace(path, after)
    kept = f"; what it was is in {backup}" if backup else ""
    call.say(f"{path}: {client.title} knows Holdfast now{kept}")
    return 0


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}", "nothing was changed") from None


def _in_json(client: AssistantProgram, before: str, command: str, args: list[str]) -> str:
    """The file with our entry; raises ValueError and others if something else would be lost."""
    value = json.loads(before, object_pairs_hook=_unique_keys) if before.strip() else {}
    servers = value.setdefault(client.section, {})
    servers[NAME] = {**(servers.get(NAME) or {}), **client.entry(command, args)}
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _in_toml(client: AssistantProgram, before: str, command: str, args: list[str]) -> str:
    """The file with our entry; every other line stays as it is."""
    after = _with_table(client, before, command, args)
    was, now = _parsed(before), _parsed(after)
    if was is None or now is None:
        # This Python has no TOML parser, so only simple files are changed.
        rest = before.replace(f"[{client.section}.{NAME}]", "")
        rest = rest.replace(f"[{client.section}.{NAME}.", "[")
        keys = [line.partition("=")[0].strip() for line in rest.splitlines()]
        is_odd = any(NAME in key or key.startswith(client.section) for key in keys)
        if is_odd or '"""' in rest or "'''" in rest:
            raise ValueError("not plain enough")
        return after
    ours = now.setdefault(client.section, {}).pop(NAME, {})
    theirs = was.setdefault(client.section, {}).pop(NAME, {})
    entry = client.entry(command, args)
    if was != now or ours != {**theirs, **entry}:
        raise ValueError("something else would be changed")
    return after


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        tomllib = importlib.import_module("tomllib")
    except ImportError:
        return None
    found: dict[str, Any] = tomllib.loads(text)
    return found


def _with_table(client: AssistantProgram, before: str, command: str, args: list[str]) -> str:
    head = f"[{client.section}.{NAME}]"
    kept: list[str] = []
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
        if not is_ours:
            kept.append(line)
        elif stripped and key not in ("command", "args"):
            # Keys that the user added to our table stay in it.
            kept.append(line)
    block = _toml(client, command, args).splitlines()
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
