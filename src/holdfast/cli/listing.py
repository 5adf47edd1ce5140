"""`holdfast ls`: every Holdfast of this user, and whether it is alive.

The lock tells who lives: a keeper.json without a held lock was left by a crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.terminal import durations, screen
from holdfast.client.connection import Connection
from holdfast.system.places import keeper_note, lock_is_held, states_root
from holdfast.vocabulary.errors import HoldfastError

HEADS = ("PROJECT", "STATE", "KEEPER", "SERVICES", "VERSION", "STATE FOLDER")
ANSWER_SECONDS = 0.5


def ls(call: Call) -> int:
    found = [entry_of(state) for state in state_folders(states_root(call.environ))]
    entries = sorted((entry for entry in found if entry), key=lambda entry: entry["project"])
    if call.is_json:
        call.emit({"holdfasts": entries})
        return 0
    if not entries:
        call.say("no Holdfast of yours runs; `holdfast up` or `holdfast run -- COMMAND` starts one")
        return 0
    call.say(
        "\n".join(screen.table(HEADS, [_row(e) for e in entries], call.paint, screen.width(), 1))
    )
    if any(entry["status"] == "stale" for entry in entries):
        call.say()
        call.say(call.paint("stale: left by a crash; `holdfast up` there takes over", "dim"))
    for entry in entries:
        if not os.path.isdir(entry["project"]):
            end = f"`holdfast --state-dir {entry['state_folder']} down` ends it"
            call.say(call.paint(f"{entry['project']} was moved or deleted; {end}", "dim"))
    return 0


def state_folders(root: str) -> Iterator[str]:
    """The usual places, then those that notes in `elsewhere` name."""
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return
    for name in names:
        if name != "elsewhere":
            yield os.path.join(root, name)
    notes = os.path.join(root, "elsewhere")
    for name in sorted(os.listdir(notes)) if os.path.isdir(notes) else ():
        note = _read_json(os.path.join(notes, name))
        if note and isinstance(note.get("state"), str):
            yield note["state"]


def entry_of(state: str) -> dict[str, Any] | None:
    """What is known of the Holdfast in this state folder; None when none is or was there."""
    keeper = keeper_note(state)
    if not keeper:
        return None
    is_alive = lock_is_held(state)
    entry: dict[str, Any] = {
        "project": keeper.get("project") or "?",
        "status": "running" if is_alive else "stale",
        "keeper_pid": keeper.get("pid") if is_alive else None,
        "version": keeper.get("version"),
        "started_at": keeper.get("started_at"),
        "state_folder": state,
        "services": None,
        "running": None,
    }
    if is_alive:
        _ask_services(entry, str(keeper.get("runtime") or os.path.join(state, "run")))
    return entry


def _ask_services(entry: dict[str, Any], runtime: str) -> None:
    try:
        connection = Connection(os.path.join(runtime, "line.sock"), connect_seconds=ANSWER_SECONDS)
    except HoldfastError:
        return
    try:
        services = connection.answer(connection.send("status"), ANSWER_SECONDS)["services"]
    except (HoldfastError, TimeoutError, KeyError):
        return
    finally:
        connection.close()
    entry["services"] = len(services)
    entry["running"] = sum(service.get("pid") is not None for service in services.values())


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    count = "-" if entry["services"] is None else f"{entry['running']}/{entry['services']}"
    return (
        entry["project"],
        entry["status"],
        str(entry["keeper_pid"] or "-"),
        count,
        str(entry["version"] or "-"),
        f"{entry['state_folder']} (since {durations.show_time(entry['started_at'])})",
    )


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
