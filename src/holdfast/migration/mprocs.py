"""mprocs.yaml: commands that each have a terminal of their own."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.migration.findings import Findings, advice, command_keys, escaped, put, text_of
from holdfast.migration.located import LocatedValue, read_located
from holdfast.vocabulary.errors import UsageError

NAMES = ("mprocs.yaml", "mprocs.yml", "mprocs.json")
_TOP_NEEDLESS = frozenset({
    *("hide_keymap_window", "mouse_scroll_speed", "scrollback", "proc_list_width"),
    *("proc_list_title", "keymap_procs", "keymap_term", "keymap_copy", "log_dir"),
})  # fmt: skip
"""How its own screen looks, and where logs lie: Holdfast always records."""
_TOP_INSTEAD = {
    "server": "the doors of Holdfast: see `holdfast status` for their addresses",
    "on_init": "start what is wanted with `autostart`, or a workflow",
    "on_all_finished": "`holdfast wait NAME --for exited` in a script",
}
NEEDLESS = frozenset({"log", "log_dir", "mouse_scroll_speed", "scrollback"})


def recognises(name: str, text: str) -> bool:
    return re.search(r"^(?:procs\s*:|\s*\"procs\"\s*:)", text, re.MULTILINE) is not None


def read(path: str, text: str) -> Findings:
    found = Findings("mprocs", path)
    document = read_located(text, os.path.basename(path))
    procs = document.get("procs")
    if procs is None or not isinstance(procs.value, dict):
        raise UsageError(f"{path} has no procs", "mprocs keeps them under `procs`")
    for name, proc in procs.items():
        _proc(found, name, proc)
    for key, inner in document.items():
        if key != "procs" and key not in _TOP_NEEDLESS:
            found.lose(inner.line, key, advice(_TOP_INSTEAD, key))
    return found


def _proc(found: Findings, name: str, proc: LocatedValue) -> None:
    # mprocs shows each program in a terminal and restarts none, unless told.
    keys: dict[str, Any] = {"restart_policy": "never", "terminal": True}
    value = _chosen(found, name, proc, proc.plain())
    if isinstance(value, (str, list)):
        value = {"shell" if isinstance(value, str) else "cmd": value}
    for key, inner in (value or {}).items():
        item = proc.get(key) or proc
        chosen = _chosen(found, f"{name}: {key}", item, inner)
        if not _key(found, name, key, item, chosen, keys) and key not in NEEDLESS:
            found.lose(item.line, f"{name}: {key}", "Holdfast has no such key")
    if "command" not in keys:
        found.lose(proc.line, f"{name} has no command", "it is left out")
        return
    found.add(name, keys, proc.line)


def _chosen(found: Findings, what: str, item: LocatedValue, value: Any) -> Any:
    """Return what `$select: os` chooses on Linux."""
    if not isinstance(value, dict) or "$select" not in value:
        return value
    found.lose(item.line, f"{what} by system", "the value for Linux is taken")
    return value.get("linux", value.get("$else"))


def _key(
    found: Findings, name: str, key: str, item: LocatedValue, value: Any, keys: dict[str, Any]
) -> bool:
    """Carry one key over; returns whether that was possible."""
    match key:
        case "shell" if isinstance(value, str):
            keys.update(command_keys(value))
        case "cmd" if isinstance(value, list):
            keys["command"] = [escaped(str(word)) for word in value]
        case "cwd":
            folder = str(value).replace("<CONFIG_DIR>", ".").replace("././", "./")
            keys["working_dir"] = folder
        case "env":
            for one, inner in item.items():
                text = _chosen(found, f"{name}: {one}", inner, inner.plain())
                if text is None:
                    instead = "`environment: clean` begins with no variable at all"
                    found.lose(inner.line, f"{name}: {one} is taken away", instead)
                else:
                    put(keys, f"env.{one}", escaped(text_of(text)))
        case "add_path":
            folders = value if isinstance(value, list) else [value]
            put(keys, "env.PATH", ":".join([*map(str, folders), "${PATH}"]))
        case "autostart":
            keys |= {"autostart": False} if value is False else {}
        case "autorestart":
            keys |= {"restart_policy": "always"} if value else {}
        case "deps" | "depends" if isinstance(value, list):
            keys["depends_on"] = [str(other) for other in value]
        case "stop":
            if isinstance(value, dict):
                instead = "`stop: {signal: …}`, or type it: `holdfast send NAME …`"
                found.lose(item.line, f"{name}: stop by keys", instead)
            else:
                put(keys, "stop.signal", "KILL" if value == "hard-kill" else str(value))
        case _:
            return False
    return True
