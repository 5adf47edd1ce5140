"""`status`, `stop` and `down` without a supervisor: the keeper itself is asked.

The keeper knows runs, not services. States are given as far as it can see them; the rest is
unknown.
"""

from __future__ import annotations

import time

from holdfast.cli.call import Call
from holdfast.client.discovery import SupervisorAway, SupervisorHung
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.system.places import lock_is_held
from holdfast.vocabulary.errors import KeeperGone, TimedOut, UnknownService
from holdfast.vocabulary.names import OWN_NAMES
from holdfast.vocabulary.quantities import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from holdfast.keeper.protocol.messages import ExitFacts, KeeperFacts, RunFacts

STOP_MARGIN_SECONDS = 15.0


def warn(call: Call, away: SupervisorAway) -> None:
    """Say on standard error why the keeper is asked."""
    call.note(f"{away.message}\n  {away.hint}")


def status(call: Call, away: SupervisorAway) -> dict[str, Any]:
    """An answer in the form of the command `status`, from the keeper's runs."""
    warn(call, away)
    facts = away.facts
    services = {run["service"]: _live_service(run) for run in visible_runs(facts)}
    for name, exit_ in _last_exits(facts).items():
        services.setdefault(name, _ended_service(exit_))
    if call.operands:
        services = {name: services[name] for name in _resolve(call.operands, services)}
    return {
        "supervisor": {
            "status": "hung" if isinstance(away, SupervisorHung) else facts["supervisor"]["state"],
            "uptime": None,
            "managed_services": len(services),
            "pid": facts["supervisor"].get("pid"),
            "keeper_pid": facts.get("pid"),
            "version": facts.get("version"),
            "project": call.places.project,
            "last_error": facts["supervisor"].get("last_error"),
            "unclaimed": facts.get("unclaimed") or [],
        },
        "services": services,
    }


def stop(call: Call, away: SupervisorAway) -> dict[str, Any]:
    """End runs through the keeper and wait until no process of them is left."""
    warn(call, away)
    keeper = KeeperConnection(call.places.keeper_socket)
    # A service may have two runs while one replaces the other.
    runs = visible_runs(keeper.facts)
    live = {run["service"]: run for run in runs}
    exits = _last_exits(keeper.facts)
    names = _resolve(call.operands, {**exits, **live}) if call.operands else list(live)
    chosen = [run for run in runs if run["service"] in names]
    grace = call.options.get("grace")
    longest = 0.0
    for run in chosen:
        fields = {} if grace is None else {"grace": grace}
        keeper.ask("end", run_id=run["run_id"], **fields)
        longest = max(longest, run["stop"]["grace"] if grace is None else grace)
    for name in names:
        if name not in live:
            keeper.ask("stay_off", service=name)
    waiting = {run["run_id"]: run["service"] for run in chosen}
    reports: dict[str, Any] = {}
    deadline = time.monotonic() + longest + STOP_MARGIN_SECONDS
    while waiting:
        notice = keeper.notice(0.2)
        if notice is not None and notice["notice"] == "ended":
            reports[notice["run_id"]] = notice.get("report")
        left = {run["run_id"] for run in keeper.ask("list").get("runs", [])}
        for run_id in [run_id for run_id in waiting if run_id not in left]:
            del waiting[run_id]
        if waiting and time.monotonic() > deadline:
            raise TimedOut(
                f"still ending: {', '.join(sorted(waiting.values()))}",
                "`holdfast stop --grace 0` kills at once",
            )
    keeper.close()
    services = {
        name: {
            "outcome": "already_stopped",
            "status": _ended_service(exits[name])["status"],
            "run_id": exits[name]["run_id"],
            "report": None,
        }
        for name in names
        if name not in live
    }
    for run in chosen:
        services[run["service"]] = {
            "outcome": "stopped",
            "status": "stopped",
            "run_id": run["run_id"],
            "report": reports.get(run["run_id"]),
        }
    return {"services": services}


def down(call: Call, away: SupervisorAway, *, now: bool) -> dict[str, Any]:
    """Shut the keeper down; it ends every run first."""
    warn(call, away)
    keeper = KeeperConnection(call.places.keeper_socket)
    runs = visible_runs(keeper.facts)
    fields: dict[str, Any] = {"grace": 0} if now else {}
    if isinstance(away, SupervisorHung):
        fields["abandon"] = True
    keeper.ask("shutdown", **fields)
    longest = max((run["stop"]["grace"] for run in runs), default=0.0)
    deadline = time.monotonic() + longest + STOP_MARGIN_SECONDS
    ends: dict[str, Any] = {}
    try:
        while time.monotonic() < deadline:
            notice = keeper.notice(0.2)
            if notice is not None and notice["notice"] == "ended":
                ends[notice["service"]] = {"status": "stopped", "report": notice.get("report")}
    except KeeperGone:
        pass
    finally:
        keeper.close()
    while lock_is_held(call.places.state):
        if time.monotonic() > deadline:
            raise TimedOut("the keeper has not ended yet", "`holdfast down --now` kills at once")
        time.sleep(0.02)
    return {run["service"]: ends.get(run["service"], {"status": "stopped"}) for run in runs}


def visible_runs(facts: KeeperFacts) -> list[RunFacts]:
    return [run for run in facts.get("runs", []) if not run.get("hidden")]


def _last_exits(facts: KeeperFacts) -> dict[str, ExitFacts]:
    """The last exit of each service. The keeper lists exits in order."""
    return {
        exit_["service"]: exit_
        for exit_ in facts.get("exits", [])
        if not exit_["service"].startswith(OWN_NAMES)
    }


def _resolve(wanted: list[str], known: Collection[str]) -> list[str]:
    """The services and instances that these words name. Only the supervisor knows groups and
    tags."""
    names: dict[str, None] = {}
    for word in wanted:
        found = [name for name in known if name == word or name.partition("@")[0] == word]
        if not found:
            raise UnknownService.named(word, sorted(known))
        names.update(dict.fromkeys(found))
    return list(names)


def _live_service(run: RunFacts) -> dict[str, Any]:
    state = "stopping" if run.get("ending") else "paused" if run.get("paused") else "running"
    return {
        "status": state,
        "pid": run["pid"],
        "uptime": run.get("age"),
        "restart_count": None,
        "run_id": run["run_id"],
        "run": run["number"],
        "exit_code": None,
        "signal": None,
        "reason": None,
        "duration": None,
        "log_bytes": run.get("log_bytes", 0),
        "started_at": run.get("started_at"),
        "adopted": bool(run.get("adopted")),
    }


def _ended_service(exit_: ExitFacts) -> dict[str, Any]:
    """A service that ended. Only the supervisor knows which other exit codes mean success."""
    code, number = exit_.get("code"), exit_.get("signal")
    signal = None if number is None else signal_name(number)
    if exit_.get("is_end_asked"):
        state, how = "stopped", "stopped"
    elif signal is not None:
        state, how = "failed", f"killed by {signal}"
    elif code is None:
        state, how = "failed", "exit code unknown"
    else:
        state, how = "failed" if code else "exited", f"exit code {code}"
    return {
        "status": state,
        "pid": None,
        "uptime": None,
        "restart_count": None,
        "run_id": exit_["run_id"],
        "run": exit_["number"],
        "exit_code": code,
        "signal": signal,
        "reason": f"{how} while no supervisor ran",
        "duration": exit_.get("seconds"),
        "log_bytes": exit_.get("log_bytes", 0),
        "started_at": exit_.get("started_at"),
    }
