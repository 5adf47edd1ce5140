"""Why a service is in its state and what comes next, in sentences. Pure: facts in, words out.

Every state has its sentence. What is not known is called unknown; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.rules.explain import diagnosis
from holdfast.rules.lifecycle.recovery import action_for
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    LogTarget,
    McpTarget,
    NotifyTarget,
    ProbeSpec,
    ProcessTarget,
    TcpTarget,
)
from holdfast.vocabulary.specs.services import UNLIMITED, ServiceSpec
from holdfast.vocabulary.states import Desired, State


class PortListener(NamedTuple):
    """The process that listens on a port that a service wants; pid None: unknown or not visible."""

    port: int
    pid: int | None = None
    name: str = ""
    service: str | None = None


class Evidence(NamedTuple):
    """What is known of one service."""

    spec: ServiceSpec
    state: State
    desired: Desired
    for_seconds: float
    """How long it has been in this state."""
    reason: str | None = None
    number: int = 0
    pid: int | None = None
    uptime: float | None = None
    restarts: int = 0
    failures: int = 0
    start_failures: int = 0
    next_start_in: float | None = None
    waiting_for: tuple[str, ...] = ()
    health: str | None = None
    is_started: bool | None = None
    is_ready: bool | None = None
    said: str | None = None
    code: int | None = None
    signal: str | None = None
    stage: str | None = None
    """The step of starting that failed last."""
    is_suppressed: bool = False
    is_adopted: bool = False
    is_outdated: bool = False
    has_verdict: bool = False
    is_retiring: bool = False
    next_scheduled_in: float | None = None
    changed_fields: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """The last lines of output, oldest first."""
    holders: tuple[PortListener, ...] = ()
    failed_check: str | None = None
    """Why a check of the live run failed last."""
    stopped_because: str | None = None
    failure: tuple[str, str] | None = None
    """Of an AI agent: why it does not work, in a sentence, and what mends it."""
    """Why it was stopped, if nobody asked for that."""


def duration(seconds: float) -> str:
    """Return a duration in at most two units, for a sentence."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def is_fine(facts: Evidence) -> bool:
    """Return whether nothing needs an explanation."""
    if facts.waiting_for or facts.health == "unhealthy" or facts.failure is not None:
        return False
    match facts.state:
        case State.RUNNING:
            return facts.is_ready is not False
        case State.STOPPED:
            return not facts.is_suppressed
        case State.EXITED | State.PENDING:
            return True
        case State.FAILED:
            return False
        case State.STARTING | State.STOPPING:
            return not facts.has_verdict and facts.failures == 0
        case State.PAUSED:
            return facts.desired is Desired.RUNNING
        case State.BACKOFF:
            return facts.failures == 0


# Why


def why(facts: Evidence) -> str:
    """Return one sentence about the state."""
    return _why_state(facts) if facts.failure is None else facts.failure[0]


def _why_state(facts: Evidence) -> str:
    since = duration(facts.for_seconds)
    match facts.state:
        case State.PENDING:
            return _why_pending(facts)
        case State.STARTING:
            return _why_starting(facts, since)
        case State.RUNNING:
            return _why_running(facts)
        case State.PAUSED:
            return f"it was paused {since} ago; its processes are frozen and use no CPU"
        case State.STOPPING:
            if facts.has_verdict:
                return f"it is being ended as a failure for {since}: {_reason(facts)}"
            return f"it has been asked to stop {since} ago and has not ended yet"
        case State.STOPPED:
            if facts.waiting_for:
                return f"it should run, but waits for {listed(facts.waiting_for)}"
            if facts.is_suppressed:
                return f"it was stopped {since} ago because of trouble: {_reason(facts)}"
            if facts.stopped_because:
                return f"it was stopped {since} ago because {facts.stopped_because}"
            return f"it was stopped by request {since} ago"
        case State.FAILED:
            return _why_failed(facts, since)
        case State.BACKOFF:
            ended = "ended" if facts.failures == 0 else "failed"
            return f"it {ended} {since} ago ({_reason(facts)}) and waits for its next start"
        case State.EXITED:
            return f"it ended by itself {since} ago, successfully ({_reason(facts)})"


def _why_pending(facts: Evidence) -> str:
    if facts.waiting_for:
        return f"it should run, but waits for {listed(facts.waiting_for)}"
    declared = "it is declared"
    if not facts.spec.enabled:
        declared += " with enabled: false"
    elif not facts.spec.autostart:
        declared += " with autostart: false"
    if facts.number:
        return f"{declared}, and nobody has started it since; run {facts.number} was its last"
    return f"{declared}, and nobody has started it yet"


def _why_starting(facts: Evidence, since: str) -> str:
    if facts.pid is None:
        return f"it is being started since {since}; its process is not there yet"
    if facts.is_started is False:
        return f"it was started {since} ago, and its startup check has not succeeded yet"
    stay = duration(facts.spec.start_seconds)
    return f"it was started {since} ago and has not stayed up for {stay} yet (start_seconds)"


def _why_running(facts: Evidence) -> str:
    uptime = duration(facts.uptime if facts.uptime is not None else facts.for_seconds)
    words = f"it has been running for {uptime} (run {facts.number}, pid {facts.pid or 'unknown'})"
    missing = facts.failed_check or _unpassed(facts.spec, facts.is_ready)
    failed = f" ({missing})" if missing else ""
    if facts.health == "unhealthy":
        words += f", and its checks say it is unhealthy{failed}"
    elif facts.is_ready is False:
        words += f", and is not ready{failed}"
    elif facts.health == "healthy":
        words += ", and its checks say it is healthy"
    elif facts.health is not None:
        words += "; no check has answered yet"
    if facts.said:
        words += f"; it says of itself: {facts.said}"
    if facts.is_adopted:
        words += "; it was adopted, so its output is not recorded"
    return words


def _unpassed(spec: ServiceSpec, is_ready: bool | None) -> str:
    """Return the readiness checks that have not passed yet, as they are declared."""
    if is_ready is not False:
        return ""
    checks = [_question(probe) for probe in spec.probes if "readiness" in probe.roles]
    return f"not yet: {listed(checks)}" if checks else ""


def _question(probe: ProbeSpec) -> str:
    match probe.target:
        case HttpTarget(url=url):
            return f"an answer from {url}"
        case TcpTarget(port=port, lease=lease):
            return f"a connection to port {lease or port}"
        case ExecTarget(argv=argv):
            return f"success of `{argv[0]}`"
        case LogTarget(pattern=pattern):
            return f'a line that matches "{pattern}"'
        case NotifyTarget():
            return "its own report READY=1"
        case ProcessTarget():
            return "its process"
        case McpTarget():
            return "an answer to the protocol"


def _why_failed(facts: Evidence, since: str) -> str:
    words = f"it failed {since} ago: {_reason(facts)}"
    if facts.reason and "could not be killed" in facts.reason:
        return f"it could not be stopped {since} ago: {facts.reason}"
    if facts.desired is Desired.STOPPED:
        return f"{words}; since then it was stopped by request"
    return words


def _reason(facts: Evidence) -> str:
    if facts.reason:
        return facts.reason
    if facts.signal is not None:
        return f"killed by {facts.signal}"
    return "exit code unknown" if facts.code is None else f"exit code {facts.code}"


# What comes next


def next_step(facts: Evidence) -> str:
    """Return what will happen by itself."""
    if facts.is_retiring:
        return "nothing is started any more, because Holdfast is being shut down"
    if facts.waiting_for:
        return f"it is started as soon as this is so: {listed(facts.waiting_for)}"
    if facts.failure is not None and facts.failure[1] and facts.next_start_in is None:
        return f"{facts.failure[1]} helps"
    match facts.state:
        case State.BACKOFF:
            return _next_start(facts)
        case State.STARTING:
            return _after_start(facts)
        case State.RUNNING:
            return _next_of_running(facts)
        case State.PAUSED:
            return f"nothing, until `holdfast resume {facts.spec.name}`"
        case State.STOPPING:
            grace = duration(facts.spec.stop.grace)
            then = "then it is restarted" if _comes_back(facts) else "then it stays stopped"
            return f"what is left of it after a grace of {grace} is killed; {then}"
        case _:
            return _next_of_rest(facts)


def _comes_back(facts: Evidence) -> bool:
    return facts.desired is Desired.RUNNING and facts.spec.restart_policy != "never"


def _next_start(facts: Evidence) -> str:
    if facts.next_start_in is None:
        return "it is restarted as soon as all its old processes are gone"
    words = f"restart in {duration(facts.next_start_in)}"
    if facts.start_failures:
        tries = facts.spec.start_retries + 1
        return f"{words}, attempt {facts.start_failures + 1} of {tries} to start it"
    limit = facts.spec.restart.max_restarts
    if facts.failures and limit != UNLIMITED:
        return f"{words}, attempt {facts.failures} of {limit}"
    return f"{words}, attempt {facts.failures}" if facts.failures else words


def _after_start(facts: Evidence) -> str:
    if facts.is_started is False:
        return "it counts as running when its startup check succeeds"
    left = max(0.0, facts.spec.start_seconds - (facts.uptime or 0.0))
    sooner = "an exit before that is an immediate exit, which counts as a failed start"
    return f"it counts as running if it stays up for {duration(left)} more; {sooner}"


def _next_of_running(facts: Evidence) -> str:
    policy = facts.spec.restart_policy
    match policy:
        case "never":
            words = "if it ends, it stays ended (restart_policy never)"
        case "always":
            words = "if it ends, it is restarted (restart_policy always)"
        case _:
            words = "if it fails, it is restarted (restart_policy on_failure)"
    if facts.health == "unhealthy" and (patience := _patience(facts)):
        words = f"nothing more is done about its health ({patience}); {words}"
    if facts.failures:
        stable = duration(facts.spec.restart.reset_after)
        words += f"; {_failures(facts.failures)} forgotten after {stable} of running"
    return words


def _patience(facts: Evidence) -> str | None:
    """Return why an unhealthy run is left alone, if that is declared."""
    action = action_for(facts.spec, "unhealthy").action
    if action != "restart":
        return f"recovery of unhealthy: {action}"
    liveness = [probe for probe in facts.spec.probes if "liveness" in probe.roles]
    return "action: report" if any(probe.action == "report" for probe in liveness) else None


def _next_of_rest(facts: Evidence) -> str:
    """Return what happens next with a service without a process."""
    if facts.next_scheduled_in is not None:
        return f"its schedule starts it in {duration(facts.next_scheduled_in)}"
    if facts.next_start_in is not None:
        return f"it is started again in {duration(facts.next_start_in)}, with the same conversation"
    start = f"`holdfast start {facts.spec.name}` starts it"
    if facts.spec.schedule is not None and facts.desired is Desired.STOPPED:
        return f"nothing, because its schedule is off; {start} and its schedule"
    match facts.state:
        case State.FAILED if facts.reason and "could not be killed" in facts.reason:
            return "nothing, because processes of the last run are still alive"
        case State.FAILED if facts.desired is Desired.STOPPED:
            return f"nothing, because it was stopped; {start}"
        case State.FAILED if "(recovery of " in (facts.reason or ""):
            return f"nothing, because its recovery says so; {start}"
        case State.FAILED if (
            facts.is_suppressed and facts.start_failures > facts.spec.start_retries
        ):
            return f"nothing: {_immediate_exits(facts.spec)}; {start} and resets the count"
        case State.FAILED if facts.is_suppressed:
            most = facts.spec.restart.max_restarts
            return f"nothing: it reached max_restarts ({most}). {start} and resets the count"
        case State.FAILED if facts.spec.restart_policy == "never":
            return f"nothing, because its restart_policy is never; {start}"
        case State.FAILED:
            return f"nothing is planned; {start}"
        case State.EXITED if facts.spec.restart_policy == "always":
            return f"nothing is planned; {start}"
        case State.EXITED:
            policy = facts.spec.restart_policy
            return f"nothing, because a success is no reason to restart (restart_policy {policy})"
        case _:
            return f"nothing, because it was stopped; {start}"


def _immediate_exits(spec: ServiceSpec) -> str:
    """Say what an immediate exit is, and that no policy overrules its limit."""
    stay = duration(spec.start_seconds)
    words = f"an immediate exit (within start_seconds, {stay}) is a failed start"
    limit = f"after {spec.start_retries + 1} of them (start_retries {spec.start_retries})"
    if spec.restart_policy == "always":
        return f"{words}, and {limit} even restart_policy always no longer restarts it"
    return f"{words}, and {limit} it is no longer restarted"


def _failures(count: int) -> str:
    return "the failure before is" if count == 1 else f"the {count} failures before are"


# Hints


def hints(facts: Evidence) -> list[str]:
    """Return what to look at, the most telling first."""
    found = [_holder_words(holder) for holder in facts.holders]
    has_failed = facts.state in (State.FAILED, State.BACKOFF) or facts.failures > 0
    if has_failed and facts.stage is not None:
        argv, folder = facts.spec.argv, facts.spec.working_dir
        found.append(diagnosis.stage_hint(facts.stage, facts.reason or "", argv, folder))
    elif has_failed:
        found += diagnosis.line_hints(facts.lines)
        if diagnosis.says_in_use(facts.lines) and not facts.holders:
            found.append("its address is in use by another process; `holdfast ports N` says which")
    if has_failed and facts.changed_fields:
        found.append(
            f"since the last good run the configuration changed: {listed(facts.changed_fields)}"
        )
    if facts.is_outdated:
        name = facts.spec.name
        found.append(
            f"it is still running with the old configuration; `holdfast restart {name}` applies it"
        )
    if has_failed and facts.stage is None:
        found.append(f"`holdfast logs {facts.spec.name} --tail 50` shows more of its output")
    return list(dict.fromkeys(hint for hint in found if hint))


def _holder_words(holder: PortListener) -> str:
    if holder.pid is None:
        return f"port {holder.port} is reported as taken, but by no process that this user can see"
    whose = f", of the service {holder.service}" if holder.service else ""
    name = f" ({holder.name}{whose})" if holder.name or whose else ""
    return f"port {holder.port} is used by pid {holder.pid}{name}"


def listed(items: Iterable[str]) -> str:
    """Join words: «a, b and c»."""
    words = list(items)
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
