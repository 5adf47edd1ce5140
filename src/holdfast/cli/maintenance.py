"""The verbs about Holdfast itself: upgrade, prune, version.

The keeper replaces itself and the supervisor. `upgrade` only says with which code, waits for the
new supervisor, and compares the pids before and after.
"""

from __future__ import annotations

import sys
import time

from holdfast import __version__
from holdfast.cli import keeper_fallback
from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import SERVICES, Option, Verb
from holdfast.cli.terminal import durations
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway, connect
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.client.launch import import_path, package_parent, python_prefix
from holdfast.vocabulary.errors import HoldfastError, KeeperGone, NoDaemon, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UPGRADE_SECONDS = 60.0

Runs = dict[str, tuple[str, int]]
"""Run id and pid of each service."""


@Verb(
    "upgrade",
    "Swap the running Holdfast for the installed version",
    commands=("upgrade", "status"),
    about="No service notices: pids, pipes, terminals and exit codes stay.",
    examples=(("holdfast upgrade", "after installing another version"),),
)
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
    """Ask the supervisor for the upgrade; returns what was there before."""
    call.use(connect(call.places, any_version=True))
    connection = call.connect()
    before = connection.ask("hello", version=__version__)
    runs_before = _runs(connection.ask("status"))
    try:
        connection.ask("upgrade", **request)
    except ConnectionLost:
        # The supervisor may be replaced before it has answered; `_wait_for_new` asks the next one.
        pass
    return before, runs_before


def _ask_keeper(
    call: Call, away: SupervisorAway, request: dict[str, Any]
) -> tuple[dict[str, Any], Runs]:
    """Ask the keeper instead: a supervisor with a broken installation cannot start its own
    replacement."""
    call.note(away.message)
    facts = away.facts
    keeper = KeeperConnection(call.places.keeper_socket)
    try:
        keeper.ask("upgrade", seconds=UPGRADE_SECONDS, **request)
    except KeeperGone:
        pass  # it may be replaced before it has answered, too
    finally:
        keeper.close()
    before = {
        "version": None,
        "keeper_version": facts.get("version"),
        "pid": facts["supervisor"].get("pid"),
    }
    runs = {
        run["service"]: (run["run_id"], run["pid"]) for run in keeper_fallback.visible_runs(facts)
    }
    return before, runs


def _runs(status: dict[str, Any]) -> Runs:
    return {
        name: (service["run_id"], service["pid"])
        for name, service in status["services"].items()
        if service.get("pid") is not None
    }


def _wait_for_new(call: Call, before: dict[str, Any]) -> tuple[dict[str, Any], Runs]:
    deadline = time.monotonic() + UPGRADE_SECONDS
    while time.monotonic() < deadline:
        try:
            call.use(connect(call.places, any_version=True))
            hello = call.ask("hello", version=__version__)
            if hello["pid"] != before["pid"] and hello["version"] == __version__:
                return hello, _runs(call.ask("status"))
        except NoDaemon:
            pass
        time.sleep(0.05)
    raise TimedOut(
        f"no supervisor of version {__version__} answered within {UPGRADE_SECONDS:g} s",
        "`holdfast status` tells who does",
    )


@Verb(
    "prune",
    "Delete old runs and logs",
    operands=SERVICES,
    most=None,
    options=(Option("--older-than", "keep what is newer", "TIME", "duration"),),
    commands=("prune",),
    about="Live runs and their output are never touched; log.total_size bounds them. "
    "Without --older-than, all ended runs go.",
    examples=(("holdfast prune --older-than 7d", "keep a week"),),
)
def prune(call: Call) -> int:
    older_than = call.options.get("older_than", 0.0)
    result = call.ask("prune", services=call.operands, older_than=older_than)
    if call.is_json:
        call.emit(result)
        return 0
    size, runs = durations.show_size(result["deleted_bytes"]), result["deleted_runs"]
    call.say(f"deleted {runs} run{'' if runs == 1 else 's'} and {size} of logs")
    return 0


@Verb(
    "version",
    "Show the versions of this CLI and of the daemon",
    commands=(),
    examples=(("holdfast version --json", "for programs"),),
)
def version(call: Call) -> int:
    """Works without a daemon, too."""
    daemon: dict[str, object] | None = None
    try:
        call.use(connect(call.places, timeout_seconds=2.0, any_version=True))
        daemon = call.ask("hello", version=__version__)
    except HoldfastError:
        pass
    python = sys.version.split()[0]
    if call.is_json:
        call.emit({"version": __version__, "python": python, "daemon": daemon})
        return 0
    call.say(f"holdfast {__version__} (Python {python})")
    if daemon is not None:
        call.say(f"daemon   {daemon['version']} (keeper {daemon['keeper_version']})")
    return 0
