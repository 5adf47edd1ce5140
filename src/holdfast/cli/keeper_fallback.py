"""What `status`, `stop` and `down` do when no supervisor answers: ask the keeper itself.

The keeper knows runs, not services: states are told as far as it can see them, and the
rest as unknown.
"""

from __future__ import annotations

import time
from typing import Any

from holdfast.cli.call import Call
from holdfast.client.discovery import SupervisorAway, SupervisorHung
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.system.places import lock_is_held
from holdfast.vocabulary.errors import KeeperGone, TimedOut, UnknownService
from holdfast.vocabulary.names import OWN_NAMES
from holdfast.vocabulary.quantities import signal_name

STOP_MARGIN_SECONDS = 15.0


def warn(call: Call, away: SupervisorAway) -> None:
    """Say on standard error why this answer comes from the keeper."""
    call.note(f"{away.message}\n  {away.hint}")


def status(call: Call, away: SupervisorAway) -> dict[str, Any]:
    """An answer in the shape of `status`, from what the keeper holds."""
    warn(call, away)
    facts = away.facts
    services = {run["service"]: _service(run) for run in visible(facts)}
    for name, end in _ends(facts).items():
        services.setdefault(name, _ended(end))
    if call.operands:
        services = {name: services[name] for name in _meant(call.operands, services)}
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
    """End runs through the keeper and wait until their trees are empty."""
    warn(call, away)
    line = KeeperConnection(call.places.keeper_socket)
    # A service may have two runs, while one relieves the other.
    runs = visible(line.facts)
    live = {run["service"]: run for run in runs}
    ended = _ends(line.facts)
    names = _meant(call.operands, {**ended, **live}) if call.operands else list(live)
    chosen = [run for run in runs if run["service"] in names]
    grace = call.options.get("grace")
    longest = 0.0
    for run in chosen:
        fields = {} if grace is None else {"grace": grace}
        line.ask("end", run_id=run["run_id"], **fields)
        longest = max(longest, run["stop"]["grace"] if grace is None else grace)
    for name in names:
        if name not in live:
            line.ask("stay_off", service=name)
    waiting = {run["run_id"]: run["service"] for run in chosen}
    reports: dict[str, Any] = {}
    deadline = time.monotonic() + longest + STOP_MARGIN_SECONDS
    while waiting:
        notice = line.notice(0.2)
        if notice is not None and notice.get("notice") == "ended":
            reports[notice["run_id"]] = notice.get("report")
        left = {run["run_id"] for run in line.ask("list").get("runs", [])}
        for run_id in [run_id for run_id in waiting if run_id not in left]:
            del waiting[run_id]
        if waiting and time.monotonic() > deadline:
            raise TimedOut(
                f"still ending: {', '.join(sorted(waiting.values()))}",
                "`holdfast stop --grace 0` kills at once",
            )
    line.close()
    services = {
        name: {
            "outcome": "already_stopped",
            "status": _ended(ended[name])["status"],
            "run_id": ended[name]["run_id"],
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
    line = KeeperConnection(call.places.keeper_socket)
    runs = visible(line.facts)
    fields: dict[str, Any] = {"grace": 0} if now else {}
    if isinstance(away, SupervisorHung):
        fields["abandon"] = True
    line.ask("shutdown", **fields)
    longest = max((run["stop"]["grace"] for run in runs), default=0.0)
    deadline = time.monotonic() + longest + STOP_MARGIN_SECONDS
    ends: dict[str, Any] = {}
    try:
        while time.monotonic() < deadline:
            notice = line.notice(0.2)
            if notice is not None and notice.get("notice") == "ended":
                ends[notice["service"]] = {"status": "stopped", "report": notice.get("report")}
    except KeeperGone:
        pass
    finally:
        line.close()
    while lock_is_held(call.places.state):
        if time.monotonic() > deadline:
            raise TimedOut("the keeper has not ended yet", "`holdfast down --now` kills at once")
        time.sleep(0.02)
    return {run["service"]: ends.get(run["service"], {"status": "stopped"}) for run in runs}


def visible(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in facts.get("runs", []) if not run.get("hidden")]


def _ends(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """How services ended, by name. They come in order of ending: of several, the last counts."""
    return {
        end["service"]: end
        for end in facts.get("exits", [])
        if not end["service"].startswith(OWN_NAMES)
    }


def _meant(wanted: list[str], known: dict[str, Any]) -> list[str]:
    """Services and instances by name; groups and tags are the supervisor's to know."""
    names: dict[str, None] = {}
    for word in wanted:
        found = [name for name in known if name == word or name.partition("@")[0] == word]
        if not found:
            raise UnknownService.named(word, sorted(known))
        names.update(dict.fromkeys(found))
    return list(names)


def _service(run: dict[str, Any]) -> dict[str, Any]:
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


def _ended(end: dict[str, Any]) -> dict[str, Any]:
    """Which other exit codes mean success is the supervisor's to know."""
    code, number = end.get("code"), end.get("signal")
    signal = None if number is None else signal_name(number)
    if end.get("is_end_asked"):
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
        "run_id": end["run_id"],
        "run": end["number"],
        "exit_code": code,
        "signal": signal,
        "reason": f"{how} while no supervisor ran",
        "duration": end.get("seconds"),
        "log_bytes": end.get("log_bytes", 0),
        "started_at": end.get("started_at"),
    }
