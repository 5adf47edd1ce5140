"""The names of all numbers, the same in every format, made from the answer of `metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple


class DataPoint(NamedTuple):
    labels: dict[str, str]
    value: float


class Family(NamedTuple):
    """One kind of number, with a sample for each combination of its labels."""

    name: str
    kind: Literal["gauge", "counter"]
    meaning: str
    unit: str
    labels: tuple[str, ...]
    samples: list[DataPoint]


_SERVICE: tuple[tuple[str, str, Literal["gauge", "counter"], str, str], ...] = (
    ("cpu_percent", "cpu_percent", "gauge", "CPU in percent of one core.", ""),
    ("memory_bytes", "resident_memory", "gauge", "Resident memory of its tree.", "bytes"),
    ("pss_bytes", "proportional_memory", "gauge", "Memory, shared pages by part.", "bytes"),
    ("processes", "processes", "gauge", "Processes of its tree.", ""),
    ("threads", "threads", "gauge", "Threads of its tree.", ""),
    ("handles", "open_handles", "gauge", "Open descriptors of its tree.", ""),
    ("started_at", "start_time", "gauge", "When its run began, unix time.", "seconds"),
    ("restarts", "restarts_in_a_row", "gauge", "Automatic restarts in a row.", ""),
    ("cpu_seconds_total", "cpu", "counter", "CPU time of all its runs.", "seconds"),
    ("read_bytes_total", "storage_read", "counter", "Read from storage by all runs.", "bytes"),
    ("written_bytes_total", "storage_written", "counter", "Written to storage.", "bytes"),
    ("runs", "runs", "counter", "Runs begun.", ""),
)
_OWN: tuple[tuple[str, str, Literal["gauge", "counter"], str, str], ...] = (
    ("uptime", "supervisor_uptime", "gauge", "Age of this supervisor.", "seconds"),
    ("cpu_seconds", "supervisor_cpu", "counter", "CPU time of the supervisor.", "seconds"),
    ("memory_bytes", "supervisor_resident_memory", "gauge", "Memory of it.", "bytes"),
    ("keeper_cpu_seconds", "keeper_cpu", "counter", "CPU time of the keeper.", "seconds"),
    ("keeper_memory_bytes", "keeper_resident_memory", "gauge", "Memory of it.", "bytes"),
    ("handler_seconds", "handlers", "counter", "Time that handlers held the loop.", "seconds"),
    ("events", "events", "counter", "Events stored.", ""),
    ("spawns", "spawns", "counter", "Runs started or taken over.", ""),
    ("spawn_seconds", "spawning", "counter", "Time from request to process.", "seconds"),
    ("restarts", "restarts", "counter", "Automatic restarts.", ""),
    ("failures", "failures", "counter", "Failed starts and condemned runs.", ""),
    ("loop_lag_seconds", "loop_lag", "gauge", "How late the loop is, on average.", "seconds"),
    ("loop_lag_max_seconds", "loop_lag_max", "gauge", "How late it was at worst.", "seconds"),
)


def families(answer: Mapping[str, Any]) -> list[Family]:
    """All numbers in an answer of the command `metrics`. An unknown number has no sample."""
    services: dict[str, dict[str, Any]] = answer["services"]
    found = [_service_up(services)]
    for field, name, kind, meaning, unit in _SERVICE:
        samples = [
            DataPoint({"service": service}, float(numbers[field]))
            for service, numbers in services.items()
            if numbers.get(field) is not None
        ]
        found.append(_family(f"service_{name}", kind, meaning, unit, ("service",), samples))
    custom = [
        DataPoint({"service": service, "name": name}, float(value))
        for service, numbers in services.items()
        for name, value in numbers.get("custom", {}).items()
    ]
    labels = ("service", "name")
    found.append(_family("service_custom", "gauge", "What it says of itself.", "", labels, custom))
    own = answer["supervisor"]
    for field, name, kind, meaning, unit in _OWN:
        value = own.get(field)
        samples = [] if value is None else [DataPoint({}, float(value))]
        found.append(_family(name, kind, meaning, unit, (), samples))
    counts = [DataPoint({"command": name}, float(count)) for name, count in own["commands"].items()]
    found.append(_family("commands", "counter", "Commands dispatched.", "", ("command",), counts))
    found += _security(answer.get("security"))
    found += _queue(answer.get("queue"))
    return [family for family in found if family.samples]


def _security(numbers: Mapping[str, Any] | None) -> list[Family]:
    """Refusals, approvals and lockdowns, which only mode advanced counts."""
    if not numbers:
        return []
    labels = ("reason", "door", "role")
    refusals = [
        DataPoint({name: refusal[name] for name in labels}, float(refusal["count"]))
        for refusal in numbers["refusals"]
    ]
    ends = [DataPoint({"end": end}, float(count)) for end, count in numbers["approvals"].items()]
    waiting = [DataPoint({}, float(numbers["approvals_waiting"]))]
    begun = [DataPoint({}, float(numbers["lockdowns"]))]
    in_force = [DataPoint({}, float(numbers["locked_down"]))]
    return [
        _family("refusals", "counter", "Requests refused.", "", labels, refusals),
        _family("approvals", "counter", "Approvals asked for, by end.", "", ("end",), ends),
        _family("approvals_waiting", "gauge", "Requests that wait.", "", (), waiting),
        _family("lockdowns", "counter", "Lockdowns begun.", "", (), begun),
        _family("locked_down", "gauge", "1 in a lockdown.", "", (), in_force),
    ]


def _queue(numbers: Mapping[str, Any] | None) -> list[Family]:
    """The queue of jobs, which is told only where there ever was one."""
    if not numbers:
        return []
    states = [
        DataPoint({"state": state}, float(count)) for state, count in numbers["states"].items()
    ]
    events = [
        DataPoint({"event": event}, float(count)) for event, count in numbers["totals"].items()
    ]
    running = [DataPoint({}, float(numbers["running"]))]
    most = [DataPoint({}, float(numbers["concurrency"]))]
    paused = [DataPoint({}, float(numbers["paused"]))]
    return [
        _family("jobs", "gauge", "Jobs, by state.", "", ("state",), states),
        _family("job_events", "counter", "What happened to jobs.", "", ("event",), events),
        _family("jobs_running", "gauge", "Jobs that run.", "", (), running),
        _family("jobs_concurrency", "gauge", "Jobs that may run at once.", "", (), most),
        _family("queue_paused", "gauge", "1 while the queue is paused.", "", (), paused),
    ]


def _service_up(services: Mapping[str, Mapping[str, Any]]) -> Family:
    samples = [
        DataPoint(
            {"service": name, "state": numbers["status"]}, float(numbers.get("pid") is not None)
        )
        for name, numbers in services.items()
    ]
    return _family(
        "service_up", "gauge", "1 while it has a process.", "", ("service", "state"), samples
    )


def _family(
    name: str,
    kind: Literal["gauge", "counter"],
    meaning: str,
    unit: str,
    labels: tuple[str, ...],
    samples: list[DataPoint],
) -> Family:
    full = f"holdfast_{name}_{unit}" if unit else f"holdfast_{name}"
    return Family(full, kind, meaning, unit, labels, samples)
