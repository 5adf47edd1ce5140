"""`holdfast upgrade`: the running Holdfast becomes the installed version.

The keeper does the swap; this only says what to run, waits for the new supervisor, and
compares the pids before and after.
"""

from __future__ import annotations

import time
from typing import Any

from holdfast import __version__
from holdfast.cli import keeper_fallback
from holdfast.cli.call import Call
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway, reach
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.client.launch import import_path, package_parent, python_prefix
from holdfast.vocabulary.errors import KeeperGone, NoDaemon, TimedOut

SWAP_SECONDS = 60.0

Runs = dict[str, tuple[str, int]]
"""Run id and pid of each service."""


def upgrade(call: Call) -> int:
    request = {
        "argv_prefix": python_prefix(),
        "package": package_parent(),
        "import_path": import_path(),
    }
    try:
        before, runs_before = _ask(call, request)
    except SupervisorAway as away:
        if away.is_off:
            raise
        before, runs_before = _ask_keeper(call, away, request)
    after, runs_after = _wait_for_new(call, before)
    changed = [
        name
        for name, (run_id, pid) in runs_before.items()
        if name in runs_after and runs_after[name][0] == run_id and runs_after[name][1] != pid
    ]
    result = {
        "before": {"version": before["version"], "keeper_version": before["keeper_version"]},
        "after": {"version": after["version"], "keeper_version": after["keeper_version"]},
        "services": len(runs_after),
        "changed_pids": changed,
    }
    if call.is_json:
        call.emit(result)
        return int(bool(changed))
    call.say(f"supervisor {before['version'] or 'away'} → {after['version']}")
    call.say(f"keeper     {before['keeper_version']} → {after['keeper_version']}")
    if changed:
        call.say(f"pid changed: {', '.join(changed)}")
    else:
        call.say(f"no pid changed ({len(runs_before)} running)")
    return int(bool(changed))


def _ask(call: Call, request: dict[str, Any]) -> tuple[dict[str, Any], Runs]:
    """Have it done; answers what was there before."""
    call.use(reach(call.places, any_version=True))
    connection = call.connect()
    before = connection.ask("hello", version=__version__)
    runs_before = _runs(connection.ask("status"))
    try:
        connection.ask("upgrade", **request)
    except ConnectionLost:
        # The supervisor may be retired before its answer is out; its successor tells.
        pass
    return before, runs_before


def _ask_keeper(
    call: Call, away: SupervisorAway, request: dict[str, Any]
) -> tuple[dict[str, Any], Runs]:
    """The same of the keeper: a supervisor whose installation is broken can do nothing for its own
    replacement."""
    call.note(away.message)
    facts = away.facts
    line = KeeperConnection(call.places.keeper_socket)
    try:
        line.ask("upgrade", seconds=SWAP_SECONDS, **request)
    except KeeperGone:
        pass  # as above
    finally:
        line.close()
    before = {
        "version": None,
        "keeper_version": facts.get("version"),
        "pid": facts["supervisor"].get("pid"),
    }
    runs = {run["service"]: (run["run_id"], run["pid"]) for run in keeper_fallback.visible(facts)}
    return before, runs


def _runs(status: dict[str, Any]) -> Runs:
    return {
        name: (service["run_id"], service["pid"])
        for name, service in status["services"].items()
        if service.get("pid") is not None
    }


def _wait_for_new(call: Call, before: dict[str, Any]) -> tuple[dict[str, Any], Runs]:
    deadline = time.monotonic() + SWAP_SECONDS
    while time.monotonic() < deadline:
        try:
            call.use(reach(call.places, any_version=True))
            hello = call.ask("hello", version=__version__)
            if hello["pid"] != before["pid"] and hello["version"] == __version__:
                return hello, _runs(call.ask("status"))
        except NoDaemon:
            pass
        time.sleep(0.05)
    raise TimedOut(
        f"no supervisor of version {__version__} answered within {SWAP_SECONDS:g} s",
        "`holdfast status` tells who does",
    )
