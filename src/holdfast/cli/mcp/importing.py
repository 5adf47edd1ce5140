"""`holdfast mcp import`: takes over the MCP servers that assistants' programs are configured with.

Shows what would be added to holdfast.yaml and what is lost; `--write` adds it, with a backup of the
earlier file. Secrets go to files of mode 0600 outside the project, never into the configuration.
"""

from __future__ import annotations

import os
from typing import Any

from holdfast.cli.call import Call
from holdfast.migration.mcp_clients import FILES, FoundServer, McpFindings, Place, read_file
from holdfast.migration.mcp_section import SECTION, adds_only, lines_of, table_of, with_servers
from holdfast.system.places import CONFIG_NAMES
from holdfast.system.private_files import make_folder, replace_file
from holdfast.vocabulary.errors import Failed, UsageError


def import_servers(call: Call) -> int:
    place = _place(call)
    found = [read_file(path, client, place) for client, path in _sources(call)]
    path = _config(call)
    before = _read(path) if path is not None else ""
    servers, skipped = _chosen(found, table_of(before, SECTION), set(table_of(before, "services")))
    if call.options.get("write") and servers:
        _write(call, path, before, servers)
    if call.is_json:
        call.emit(_described(found, servers, skipped))
        return 0
    if servers and not call.options.get("write"):
        call.say("\n".join(lines_of(servers, 0)))
    for one in found:
        for loss in one.losses:
            shown = _short(call, one.path)
            call.note(f"{shown}: {loss.server}: {loss.what}: {loss.instead}")
    for name, why in skipped.items():
        call.note(f"{name}: left out: {why}")
    if not servers:
        call.say("nothing to take over" if found else "no client has MCP servers here")
        return 0
    secrets = sum(len(server.secrets) for server in servers)
    if call.options.get("write"):
        call.say(f"{path or CONFIG_NAMES[0]}: added {', '.join(one.name for one in servers)}")
        if secrets:
            call.say(f"{secrets} secrets are in {place.secrets}, readable by you alone")
        call.say("look at it, then: holdfast check, holdfast reload; and take the servers out of")
        call.say("the clients' own files, so that they do not run twice: holdfast mcp config")
    elif secrets:
        call.note(f"--write puts {secrets} secrets into files of mode 0600 in {place.secrets}")
    return 0


def _place(call: Call) -> Place:
    home = _home(call)
    base = call.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    project = os.path.basename(call.places.state)
    secrets = os.path.join(base, "holdfast", "secrets", project)
    return Place(call.places.project, call.environ, secrets)


def _home(call: Call) -> str:
    return call.environ.get("HOME") or os.path.expanduser("~")


def _sources(call: Call) -> list[tuple[str | None, str]]:
    """Return the files to read, and whose they are where that is known."""
    words = call.operands[1:]
    sources: list[tuple[str | None, str]] = []
    for word in words or FILES:
        if word not in FILES:
            sources.append((None, os.path.join(call.folder, word)))
            continue
        there = [path for path in _paths(call, word) if os.path.isfile(path)]
        if words and not there:
            shown = ", ".join(_paths(call, word))
            raise UsageError(f"{word} has no file here", f"looked for {shown}")
        sources += [(word, path) for path in there]
    return sources


def _paths(call: Call, client: str) -> list[str]:
    return [
        os.path.join(_home(call), name[2:])
        if name.startswith("~")
        else os.path.join(call.places.project, name)
        for name in FILES[client]
    ]


def _chosen(
    found: list[McpFindings], known: dict[str, Any], services: set[str]
) -> tuple[list[FoundServer], dict[str, str]]:
    """Return the servers to add, each once, and why others are not."""
    servers: list[FoundServer] = []
    skipped: dict[str, str] = {}
    for one in found:
        for server in one.servers:
            others = {**known, **{other.name: other.keys for other in servers}}
            twin = next((own for own, keys in others.items() if _is_same(keys, server.keys)), None)
            if server.name in known:
                skipped[server.name] = "mcp_servers has one of this name"
            elif twin is not None:
                if twin != server.name:
                    skipped[server.name] = f"it is the same as {twin}"
            else:
                own = _free_name(server.name, set(others) | services)
                servers.append(server._replace(name=own))
    return servers, skipped


def _is_same(one: Any, other: dict[str, Any]) -> bool:
    """Return whether two entries start the same command, or name the same address."""
    if not isinstance(one, dict):
        return False
    variables = [set(keys.get("env") or ()) for keys in (one, other)]
    keys = ("command", "url", "working_dir")
    return variables[0] == variables[1] and all(one.get(key) == other.get(key) for key in keys)


def _free_name(name: str, taken: set[str]) -> str:
    number, own = 2, name
    while own in taken:
        own, number = f"{name[:17]}-{number}", number + 1
    return own


# The configuration


def _config(call: Call) -> str | None:
    """Return the configuration that is there; None if there is none."""
    if call.places.config is not None:
        return call.places.config
    there = [os.path.join(call.places.project, name) for name in CONFIG_NAMES]
    return next((path for path in there if os.path.lexists(path)), None)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}", "nothing was changed") from None


def _write(call: Call, path: str | None, before: str, servers: list[FoundServer]) -> None:
    """Add the servers to the configuration; every other line stays as it is."""
    target = path or os.path.join(call.places.project, CONFIG_NAMES[0])
    after = with_servers(before, servers)
    if target.endswith(".json") or not adds_only(before, after, servers):
        raise Failed(
            f"{target} cannot be added to without a change of other lines; nothing was written",
            "run it without --write and add what it shows by hand",
        )
    try:
        for server in servers:
            for file, secret in server.secrets.items():
                make_folder(os.path.dirname(file))
                replace_file(file, secret.encode() + b"\n")
        if path is not None:
            replace_file(_free(f"{path}.backup"), before.encode())
        _replace(target, after)
    except OSError as error:
        raise Failed(f"{error.filename or target}: {error.strerror or error}") from None


def _replace(target: str, text: str) -> None:
    """Replace the file; its mode stays."""
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644
    real = os.path.realpath(target)
    replace_file(real, text.encode())
    os.chmod(real, mode)


def _free(path: str) -> str:
    number = 1
    while os.path.lexists(f"{path}-{number}"):
        number += 1
    return f"{path}-{number}"


# What is told


def _short(call: Call, path: str) -> str:
    home = _home(call)
    relative = os.path.relpath(path, call.folder)
    if not relative.startswith(".."):
        return relative
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path


def _described(
    found: list[McpFindings], servers: list[FoundServer], skipped: dict[str, str]
) -> dict[str, object]:
    return {
        SECTION: {server.name: server.keys for server in servers},
        "secrets": [path for server in servers for path in server.secrets],
        "files": [{"path": one.path, "client": one.client} for one in found],
        "left_out": skipped,
        "losses": [{"file": one.path, **loss._asdict()} for one in found for loss in one.losses],
    }
