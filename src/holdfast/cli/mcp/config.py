"""`holdfast mcp config`: shows or writes the configuration of an assistant's program.

Everything else in the program's file stays, and the earlier file is kept as a backup beside it. In
a file of the user, which holds the entries of several projects, each project has its own.
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
    defaults: dict[str, Any] = {}
    """Keys of our entry that are written where they are missing; the user may change them."""
    note: str = ""

    @property
    def is_users(self) -> bool:
        """Whether the file is the user's, for all projects."""
        return self.file.startswith("~")


def _plain(command: str, args: list[str]) -> dict[str, Any]:
    return {"command": command, "args": args}


def _typed(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": command, "args": args}


def _local(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": [command, *args], "enabled": True}


_DESKTOP = (
    "~/Library/Application Support/Claude" if sys.platform == "darwin" else "~/.config/Claude"
)
_VARIABLES = ["HOLDFAST_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"]
"""The variables that tell where Holdfast runs. Codex passes on only those that are listed. It also
cancels calls that nobody approves, unless its approval mode lets them pass."""
CLIENTS: dict[str, AssistantProgram] = {
    "claude": AssistantProgram("Claude Code", ".mcp.json", "mcpServers", _plain),
    "claude-desktop": AssistantProgram(
        "Claude Desktop", f"{_DESKTOP}/claude_desktop_config.json", "mcpServers", _plain
    ),
    "codex": AssistantProgram(
        "Codex",
        ".codex/config.toml",
        "mcp_servers",
        _plain,
        {"env_vars": _VARIABLES, "default_tools_approval_mode": "approve"},
        "Codex reads it in projects that it trusts",
    ),
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
    ours = Entry(client, _entry_name(call, client, path), command, args)
    if call.options.get("write"):
        return _write(call, ours, path)
    if call.is_json:
        call.emit({"file": path, "section": client.section, ours.name: ours.values})
        return 0
    call.note(f"{client.title} reads {path}; --write puts this into it")
    call.say(_text(ours))
    return 0


class Entry(NamedTuple):
    """Our entry in a client's file."""

    client: AssistantProgram
    name: str
    command: str
    args: list[str]

    @property
    def owned(self) -> dict[str, Any]:
        """The keys that are always written."""
        return self.client.entry(self.command, self.args)

    @property
    def values(self) -> dict[str, Any]:
        return {**self.owned, **self.client.defaults}


def _entry_name(call: Call, client: AssistantProgram, path: str) -> str:
    """Return the name of our entry, which in a file of the user is not another project's."""
    if not client.is_users:
        return NAME
    try:
        servers = json.loads(_read(path) or "{}")[client.section]
        taken = {name: one.get("args") or [] for name, one in servers.items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        return NAME  # `_write` says what is wrong with the file
    project = call.places.project
    folder = "".join(c if c.isalnum() else "-" for c in os.path.basename(project)).strip("-")
    own = f"{NAME}-{folder or 'project'}"
    names = [NAME, own, *(f"{own}-{number}" for number in range(2, 1000))]
    here = [name for name in names if project in taken.get(name, ())]
    free = [name for name in names if name not in taken]
    return (here or free)[0]


def _show_all(call: Call) -> int:
    if call.is_json:
        call.emit({name: _path(call, client) for name, client in CLIENTS.items()})
        return 0
    width = max(len(name) for name in CLIENTS)
    for name, client in CLIENTS.items():
        call.say(f"{name:<{width}}  {client.title:<14}  {_path(call, client)}")
    return 0


def _path(call: Call, client: AssistantProgram) -> str:
    if client.is_users:
        home = call.environ.get("HOME") or os.path.expanduser("~")
        return os.path.join(home, client.file[2:])
    return os.path.join(call.places.project, client.file)


def _command(call: Call, client: AssistantProgram) -> tuple[str, list[str]]:
    """The command by which the client starts the relay. In a file of the user it must name the
    project."""
    args = ["mcp"]
    if client.is_users:
        args += ["-C", call.places.project]
    args += [flag for flag in ("--start", "--read-only") if call.options.get(_option_name(flag))]
    if "toolsets" in call.options:
        args += ["--toolsets", call.options["toolsets"]]
    own = os.path.realpath(sys.argv[0])
    is_program = os.path.basename(own) == NAME and os.access(own, os.X_OK)
    if is_program and not client.is_users and _is_in_path(call, own):
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


def _text(ours: Entry) -> str:
    if ours.client.file.endswith(".toml"):
        return "\n".join([_head(ours), *_toml(ours.values)])
    value = {ours.client.section: {ours.name: ours.values}}
    return json.dumps(value, indent=2, ensure_ascii=False)


def _head(ours: Entry) -> str:
    return f"[{ours.client.section}.{ours.name}]"


def _toml(values: dict[str, Any]) -> list[str]:
    # Texts and lists of texts are written in TOML as in JSON.
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def _write(call: Call, ours: Entry, path: str) -> int:
    client = ours.client
    before = _read(path)
    make = _in_toml if path.endswith(".toml") else _in_json
    try:
        after = make(ours, before or "")
    except (ValueError, AttributeError, TypeError):
        raise Failed(
            f"{path} is not understood (comments?), so nothing was changed",
            f"add this by hand: {_text(ours)}",
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
    servers = value.setdefault(ours.client.section, {})
    theirs = servers.get(ours.name) or {}
    servers[ours.name] = {**ours.client.defaults, **theirs, **ours.owned}
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _in_toml(ours: Entry, before: str) -> str:
    """The file with our entry; every other line stays as it is."""
    section = ours.client.section
    after = _with_table(ours, before)
    was, now = _parsed(before), _parsed(after)
    if was is None or now is None:
        # This Python has no TOML parser, so only simple files are changed.
        rest = before.replace(_head(ours), "")
        rest = rest.replace(f"[{section}.{ours.name}.", "[")
        keys = [line.partition("=")[0].strip() for line in rest.splitlines()]
        is_odd = any(ours.name in key or key.startswith(section) for key in keys)
        if is_odd or '"""' in rest or "'''" in rest:
            raise ValueError("not plain enough")
        return after
    new = now.setdefault(section, {}).pop(ours.name, {})
    old = was.setdefault(section, {}).pop(ours.name, {})
    if was != now or new != {**ours.client.defaults, **old, **ours.owned}:
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
    head = _head(ours)
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
    missing = {key: one for key, one in ours.client.defaults.items() if key not in found}
    block = [head, *_toml({**ours.owned, **missing})]
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
