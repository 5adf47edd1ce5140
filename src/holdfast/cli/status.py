"""The verbs that show what runs: status, ps (process trees), ls (every Holdfast of this user).

`status` is the hot path: this module imports only what is needed to ask and to lay out a table.
"""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import SERVICES, Option, Verb
from holdfast.cli.terminal import durations, screen
from holdfast.client.connection import Connection
from holdfast.client.discovery import SupervisorAway
from holdfast.system.places import keeper_note, lock_is_held, states_root
from holdfast.vocabulary.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HEADS = ("SERVICE", "STATE", "PID", "UPTIME", "RESTARTS", "CPU", "MEMORY", "DETAIL")
TREE_HEADS = ("SERVICE", "PID", "STATE", "MEMORY", "CPU", "COMMAND")
HOLDFAST_HEADS = ("PROJECT", "STATE", "KEEPER", "SERVICES", "VERSION", "STATE FOLDER")
BANNER_HEADS = ("ID", "SEVERITY", "WHAT")
BANNER_COLOURS = {"error": "red", "warning": "yellow", "success": "green"}
TROUBLED = frozenset({"failed", "backoff"})
ANSWER_SECONDS = 0.5
"""How long `ls` waits for each Holdfast."""


@Verb(
    "status",
    "Show the state of each service",
    operands=SERVICES,
    most=None,
    commands=("status",),
    examples=(
        ("holdfast status", "all services"),
        ("holdfast status web --json", "one service, for programs"),
    ),
)
def status(call: Call) -> int:
    try:
        result = call.ask("status", services=call.operands)
    except SupervisorAway as away:
        from holdfast.cli import keeper_fallback

        result = keeper_fallback.status(call, away)
    if call.is_json:
        call.emit(result)
        return 0
    call.say("\n".join(render(result, call.paint, screen.width())))
    return 0


@Verb(
    "banners",
    "List notices that concern everybody, and dismiss them",
    options=(Option("--dismiss", "put a banner away for everybody, by its id", "ID"),),
    commands=("banners", "dismiss_banner"),
    examples=(
        ("holdfast banners", "the sentences that `status` and the dashboard show on top"),
        ("holdfast banners --dismiss failure-web", "this one was read"),
    ),
)
def banners(call: Call) -> int:
    dismissed = call.options.get("dismiss")
    if dismissed:
        call.ask("dismiss_banner", banner=dismissed)
    result = call.ask("banners")
    if call.is_json:
        call.emit(result)
        return 0
    found = [sentence_of(banner) for banner in result["banners"]]
    rows = [
        (banner["id"], banner["severity"], text)
        for banner, text in zip(result["banners"], found, strict=True)
    ]
    if rows:
        call.say_table(BANNER_HEADS, rows)
    else:
        call.say("nothing that concerns everybody")
    return 0


def render(result: dict[str, Any], paint: screen.Paint, columns: int | None) -> list[str]:
    """The lines that a person sees."""
    services: dict[str, dict[str, Any]] = result["services"]
    notices = notices_of(result.get("supervisor") or {}, paint)
    if not services:
        empty = "no services yet; `holdfast run -- COMMAND` or a holdfast.yaml brings some"
        return [*notices, empty]
    rows = [row_of(name, service) for name, service in services.items()]
    lines = [*notices, *screen.table(HEADS, rows, paint, columns, state_column=1)]
    troubled = [name for name, service in services.items() if service["status"] in TROUBLED]
    supervisor: dict[str, Any] = result.get("supervisor") or {}
    counts: dict[str, int] = supervisor.get("alerts") or {}
    if troubled or counts:
        lines.append("")
    if counts:
        alerts = ", ".join(f"{count} {severity}" for severity, count in counts.items())
        lines.append(paint(f"open alerts: {alerts} (holdfast alerts)", "dim"))
    for name in troubled[:3]:
        if supervisor.get("status") == "running":
            lines.append(paint(f"why? holdfast explain {name}", "dim"))
        elif services[name].get("log_bytes"):
            lines.append(paint(f"why? holdfast logs {name} --tail 20", "dim"))
    if len(troubled) > 3:
        lines.append(paint(f"… and {len(troubled) - 3} more", "dim"))
    return lines + [paint(line, "dim") for line in doors_of(supervisor)]


def doors_of(supervisor: dict[str, Any]) -> list[str]:
    """Where each network door is, or why it is closed; an exchanged port needs no words."""
    doors: dict[str, str] = supervisor.get("doors") or {}
    notes: dict[str, str] = supervisor.get("door_notes") or {}
    lines = [", ".join(f"{name}: {where}" for name, where in doors.items())] if doors else []
    lines += [f"no {name}: {note}" for name, note in notes.items() if name not in doors]
    if fingerprint := supervisor.get("fingerprint"):
        lines.append(f"certificate: SHA-256 {fingerprint}")
    return ["", *lines] if lines else []


def notices_of(supervisor: dict[str, Any], paint: screen.Paint) -> list[str]:
    """What concerns everybody, above the table."""
    return [
        paint(sentence_of(banner), BANNER_COLOURS.get(banner["severity"], "dim"))
        for banner in supervisor.get("banners") or ()
    ]


def sentence_of(banner: dict[str, Any]) -> str:
    """One banner as a line of text."""
    text: str = banner["title"]
    if progress := banner.get("progress"):
        text += f", step {progress['step']} of {progress['steps']}: {progress['what']}"
    if banner.get("detail"):
        text += f": {banner['detail']}"
    if banner.get("since"):
        text += f", since {_moment(banner['since'])}"
    if banner.get("hint"):
        text += f" ({banner['hint']})"
    return text


def row_of(name: str, service: dict[str, Any]) -> tuple[str, ...]:
    pid = service.get("pid")
    cpu, memory = service.get("cpu_percent"), service.get("memory_mb")
    return (
        name,
        service["status"],
        "-" if pid is None else str(pid),
        durations.show(service.get("uptime")),
        _restarts(service),
        "-" if cpu is None else f"{cpu:.1f}%",
        "-" if memory is None else durations.show_size(memory * 1e6),
        detail_of(service),
    )


def _restarts(service: dict[str, Any]) -> str:
    """How often it was restarted, whatever the cause, and why."""
    in_a_row, by_cause = service.get("restart_count", 0), service.get("restarts")
    if not by_cause:
        return "-" if in_a_row is None else str(in_a_row)
    causes = ", ".join(f"{count} {cause}" for cause, count in by_cause.items())
    return f"{sum(by_cause.values())} ({causes})"


def _moment(seconds: float) -> str:
    from time import localtime, strftime, time

    is_today = strftime("%F", localtime(seconds)) == strftime("%F", localtime(time()))
    return strftime("%H:%M:%S" if is_today else "%F %H:%M", localtime(seconds))


def detail_of(service: dict[str, Any]) -> str:
    """Why a service is in its state, and what comes next."""
    parts: list[str] = []
    reason = service.get("reason") or ""
    if reason:
        parts.append(reason)
    elif service.get("signal") and service.get("pid") is None:
        parts.append(f"ended by {service['signal']}")
    elif service.get("exit_code") is not None and service.get("pid") is None:
        parts.append(f"exit {service['exit_code']}")
    awaited = service.get("waiting_for") or []
    if awaited:
        parts.append(f"waits for {' and '.join(awaited)}")
    wait = service.get("next_start_in")
    if wait is not None and "restarting in" not in reason and not awaited:
        parts.append(f"restarting in {f'{wait:.0f} s' if wait >= 0.5 else 'a moment'}")
    if (following := service.get("next_scheduled")) is not None:
        parts.append(f"next start {_moment(following)}")
    parts += health_of(service)
    beside = service.get("beside")
    if beside:
        what = "run {run} is on its way out" if beside["leaving"] else "run {run} is on trial"
        parts.append(what.format(**beside))
    if service.get("scaled"):
        parts.append(service["scaled"])
    if ports := service.get("ports"):
        parts.append(" ".join(_port(name, port) for name, port in ports.items()))
    if owner := service.get("owner"):
        parts.append(_owned(owner))
    if service.get("adopted"):
        parts.append("adopted")
    others = [name for name, value in sorted((service.get("overrides") or {}).items()) if value]
    if others:
        parts.append("started with other " + " and ".join(others))
    return ", ".join(parts)


def _port(name: str, port: int) -> str:
    return f":{port}" if name == "port" else f"{name}:{port}"


def _owned(owner: dict[str, Any]) -> str:
    through = f" through {owner['call']}" if owner.get("call") else ""
    others = len(owner.get("with_others") or ())
    joined = f", joined by {others} more" if others else ""
    return f"started by {owner['client']}{through}{joined}{' (gone)' if owner.get('ended') else ''}"


def health_of(service: dict[str, Any]) -> list[str]:
    """What its probes found, unless all is well, and what the service says of itself."""
    known, failures = service.get("health"), service.get("consecutive_failures") or 0
    parts: list[str] = []
    if service.get("ready") is False:
        parts.append("not ready")
    if known is not None and (known != "unknown" or not parts):
        parts.append("health unknown" if known == "unknown" else known)
    if failures:
        parts.append(f"{failures} failed check{'s' if failures > 1 else ''}")
    if service.get("ready") and known is None:
        parts.append("ready")
    if service.get("said"):
        parts.append(f"“{service['said']}”")
    return parts


@Verb(
    "ps",
    "Show the process tree of each service",
    operands=SERVICES,
    most=None,
    commands=("ps",),
    examples=(("holdfast ps web", "every process that belongs to web"),),
)
def ps(call: Call) -> int:
    result = call.ask("ps", services=call.operands)
    if call.is_json:
        call.emit(result)
        return 0
    rows: list[tuple[str, ...]] = []
    for name, processes in result["services"].items():
        rows.extend(tree_rows(name, processes))
    if not rows:
        call.say("no process runs")
        return 0
    call.say_table(TREE_HEADS, rows)
    return 0


def tree_rows(name: str, processes: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Children below their parents, indented. A process whose parent is not in the tree stands at
    the top."""
    known = {process["pid"] for process in processes}
    children_of: dict[int, list[dict[str, Any]]] = {}
    tops: list[dict[str, Any]] = []
    for process in processes:
        parent = process["ppid"]
        is_child = parent in known and parent != process["pid"]
        (children_of.setdefault(parent, []) if is_child else tops).append(process)
    rows: list[tuple[str, ...]] = []
    waiting = [(process, 0) for process in reversed(tops)]
    while waiting:
        process, depth = waiting.pop()
        rows.append(_tree_row("" if rows else name, process, depth))
        children = children_of.get(process["pid"], [])
        waiting.extend((child, depth + 1) for child in reversed(children))
    return rows


def _tree_row(name: str, process: dict[str, Any], depth: int) -> tuple[str, ...]:
    memory = process.get("memory_bytes")
    cpu = process.get("cpu_seconds")
    branch = "  " * (depth - 1) + "└ " if depth else ""
    return (
        name,
        str(process["pid"]),
        process.get("state", ""),
        "-" if memory is None else durations.show_size(memory),
        "-" if cpu is None else durations.show(cpu),
        branch + (process.get("command") or process.get("name") or "?"),
    )


@Verb(
    "ls",
    "List every Holdfast of this user",
    examples=(("holdfast ls", "all projects, running or left over from a crash"),),
)
def ls(call: Call) -> int:
    """A Holdfast lives as long as its lock is held: a keeper.json without a held lock was left by
    a crash."""
    found = [entry_of(state) for state in state_folders(states_root(call.environ))]
    entries = sorted((entry for entry in found if entry), key=lambda entry: entry["project"])
    if call.is_json:
        call.emit({"holdfasts": entries})
        return 0
    if not entries:
        call.say("no Holdfast of yours runs; `holdfast up` or `holdfast run -- COMMAND` starts one")
        return 0
    rows = [_holdfast_row(entry) for entry in entries]
    call.say_table(HOLDFAST_HEADS, rows, state_column=1)
    if any(entry["status"] == "stale" for entry in entries):
        call.say()
        call.say(call.paint("stale: left by a crash; `holdfast up` there takes over", "dim"))
    for entry in entries:
        if not os.path.isdir(entry["project"]):
            end = f"`holdfast --state-dir {entry['state_folder']} down` ends it"
            call.say(call.paint(f"{entry['project']} was moved or deleted; {end}", "dim"))
    return 0


def state_folders(root: str) -> Iterator[str]:
    """The usual folders, then those that notes in `elsewhere` name."""
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
    """What is known of the Holdfast in this state folder; None if there never was one."""
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
        _count_services(entry, str(keeper.get("runtime") or os.path.join(state, "run")))
    return entry


def _count_services(entry: dict[str, Any], runtime: str) -> None:
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


def _holdfast_row(entry: dict[str, Any]) -> tuple[str, ...]:
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
    import json

    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
