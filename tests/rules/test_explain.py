"""Why a service is in its state and what comes next, for every state; facts in, words out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.explain import diagnosis, event_sentences, explanation
from holdfast.rules.explain.explanation import Evidence, PortListener
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.services import RestartSpec, ScheduleSpec, ServiceSpec
from holdfast.vocabulary.specs.workflows import RecoverySpec
from holdfast.vocabulary.states import Desired, State

S, D = State, Desired


def spec(**fields: Any) -> ServiceSpec:
    return ServiceSpec(name="web", argv=("node", "x.js"), working_dir="/srv", **fields)


def facts(state: State, **fields: Any) -> Evidence:
    own = fields.pop("spec", spec())
    desired = fields.pop("desired", D.RUNNING)
    return Evidence(own, state, desired, fields.pop("for_seconds", 12.0), **fields)


TABLE: list[tuple[str, Evidence, str, str, bool]] = [
    (
        "an agent that crashed and goes on",
        facts(
            S.FAILED,
            spec=spec(kind="agent", restart_policy="never"),
            failure=("claude ended (exit code 3)", ""),
            next_start_in=2.0,
        ),
        "claude ended (exit code 3)",
        "it is started again in 2 s, with the same conversation",
        False,
    ),
    (
        "pending",
        facts(S.PENDING, desired=D.STOPPED),
        "it is declared, and nobody has started it yet",
        "nothing, because it was stopped; `holdfast start web` starts it",
        True,
    ),
    (
        "pending, not enabled",
        facts(S.PENDING, desired=D.STOPPED, spec=spec(enabled=False)),
        "it is declared with enabled: false, and nobody has started it yet",
        "nothing, because it was stopped; `holdfast start web` starts it",
        True,
    ),
    (
        "pending, with runs before",
        facts(S.PENDING, desired=D.STOPPED, spec=spec(autostart=False), number=3),
        "it is declared with autostart: false, and nobody has started it since; run 3 was its last",
        "nothing, because it was stopped; `holdfast start web` starts it",
        True,
    ),
    (
        "pending, waits",
        facts(S.PENDING, waiting_for=("db to be healthy", "migrate to be completed")),
        "it should run, but waits for db to be healthy and migrate to be completed",
        "it is started as soon as this is so: db to be healthy and migrate to be completed",
        False,
    ),
    (
        "starting",
        facts(S.STARTING, pid=7, for_seconds=0.4, uptime=0.4),
        "it was started 0.4 s ago and has not stayed up for 1 s yet (start_seconds)",
        "it counts as running if it stays up for 0.6 s more; an exit before that is "
        "an immediate exit, which counts as a failed start",
        True,
    ),
    (
        "starting, its startup check",
        facts(S.STARTING, pid=7, is_started=False),
        "it was started 12 s ago, and its startup check has not succeeded yet",
        "it counts as running when its startup check succeeds",
        True,
    ),
    (
        "running",
        facts(S.RUNNING, pid=7, number=3, uptime=125.0),
        "it has been running for 2 min 5 s (run 3, pid 7)",
        "if it fails, it is restarted (restart_policy on_failure)",
        True,
    ),
    (
        "running, unhealthy",
        facts(S.RUNNING, pid=7, number=3, uptime=5.0, health="unhealthy", failures=2),
        "it has been running for 5 s (run 3, pid 7), and its checks say it is unhealthy",
        "if it fails, it is restarted (restart_policy on_failure); "
        "the 2 failures before are forgotten after 1 min of running",
        False,
    ),
    (
        "running, unhealthy, left alone",
        facts(
            S.RUNNING,
            pid=7,
            number=3,
            uptime=5.0,
            health="unhealthy",
            failed_check="status 500",
            spec=spec(recovery={"unhealthy": RecoverySpec(action="notify")}),
        ),
        "it has been running for 5 s (run 3, pid 7), and its checks say it is unhealthy"
        " (status 500)",
        "nothing more is done about its health (recovery of unhealthy: notify); "
        "if it fails, it is restarted (restart_policy on_failure)",
        False,
    ),
    (
        "running, not ready",
        facts(S.RUNNING, pid=7, number=3, uptime=5.0, is_ready=False),
        "it has been running for 5 s (run 3, pid 7), and is not ready",
        "if it fails, it is restarted (restart_policy on_failure)",
        False,
    ),
    (
        "failed, and its recovery says stop",
        facts(S.FAILED, is_suppressed=True, reason="exit code 3 (recovery of crash: stop)"),
        "it failed 12 s ago: exit code 3 (recovery of crash: stop)",
        "nothing, because its recovery says so; `holdfast start web` starts it",
        False,
    ),
    (
        "its schedule is off",
        facts(S.EXITED, desired=D.STOPPED, code=0, spec=spec(schedule=ScheduleSpec(every=60.0))),
        "it ended by itself 12 s ago, successfully (exit code 0)",
        "nothing, because its schedule is off; `holdfast start web` starts it and its schedule",
        True,
    ),
    (
        "stopped because of trouble",
        facts(S.STOPPED, desired=D.STOPPED, is_suppressed=True, reason="HTTP 500"),
        "it was stopped 12 s ago because of trouble: HTTP 500",
        "nothing, because it was stopped; `holdfast start web` starts it",
        False,
    ),
    (
        "paused",
        facts(S.PAUSED, pid=7),
        "it was paused 12 s ago; its processes are frozen and use no CPU",
        "nothing, until `holdfast resume web`",
        True,
    ),
    (
        "stopping",
        facts(S.STOPPING, desired=D.STOPPED),
        "it has been asked to stop 12 s ago and has not ended yet",
        "what is left of it after a grace of 5 s is killed; then it stays stopped",
        True,
    ),
    (
        "stopping, condemned",
        facts(S.STOPPING, has_verdict=True, reason="unhealthy: 500"),
        "it is being ended as a failure for 12 s: unhealthy: 500",
        "what is left of it after a grace of 5 s is killed; then it is restarted",
        False,
    ),
    (
        "stopped",
        facts(S.STOPPED, desired=D.STOPPED),
        "it was stopped by request 12 s ago",
        "nothing, because it was stopped; `holdfast start web` starts it",
        True,
    ),
    (
        "failed, suppressed",
        facts(S.FAILED, reason="failed 11 times in a row", is_suppressed=True),
        "it failed 12 s ago: failed 11 times in a row",
        "nothing: it reached max_restarts (10). "
        "`holdfast start web` starts it and resets the count",
        False,
    ),
    (
        "failed, never restarted",
        facts(S.FAILED, code=3, spec=spec(restart_policy="never")),
        "it failed 12 s ago: exit code 3",
        "nothing, because its restart_policy is never; `holdfast start web` starts it",
        False,
    ),
    (
        "failed, then stopped by hand",
        facts(S.FAILED, signal="SIGSEGV", desired=D.STOPPED),
        "it failed 12 s ago: killed by SIGSEGV; since then it was stopped by request",
        "nothing, because it was stopped; `holdfast start web` starts it",
        False,
    ),
    (
        "failed, how is unknown",
        facts(S.FAILED),
        "it failed 12 s ago: exit code unknown",
        "nothing is planned; `holdfast start web` starts it",
        False,
    ),
    (
        "failed, could not be killed",
        facts(S.FAILED, reason="processes are left that could not be killed"),
        "it could not be stopped 12 s ago: processes are left that could not be killed",
        "nothing, because processes of the last run are still alive",
        False,
    ),
    (
        "backoff",
        facts(S.BACKOFF, reason="exit code 1", next_start_in=12.3, failures=4, restarts=4),
        "it failed 12 s ago (exit code 1) and waits for its next start",
        "restart in 12 s, attempt 4 of 10",
        False,
    ),
    (
        "backoff, a start that failed",
        facts(S.BACKOFF, reason="x", next_start_in=1.0, failures=2, start_failures=2),
        "it failed 12 s ago (x) and waits for its next start",
        "restart in 1 s, attempt 3 of 4 to start it",
        False,
    ),
    (
        "backoff, no limit",
        facts(
            S.BACKOFF,
            reason="x",
            next_start_in=1.0,
            failures=40,
            spec=spec(restart=RestartSpec(max_restarts=-1)),
        ),
        "it failed 12 s ago (x) and waits for its next start",
        "restart in 1 s, attempt 40",
        False,
    ),
    (
        "backoff after a success",
        facts(S.BACKOFF, code=0, next_start_in=2.0, spec=spec(restart_policy="always")),
        "it ended 12 s ago (exit code 0) and waits for its next start",
        "restart in 2 s",
        True,
    ),
    (
        "exited",
        facts(S.EXITED, code=0),
        "it ended by itself 12 s ago, successfully (exit code 0)",
        "nothing, because a success is no reason to restart (restart_policy on_failure)",
        True,
    ),
    (
        "exited, with a schedule",
        facts(S.EXITED, code=0, next_scheduled_in=240.0),
        "it ended by itself 12 s ago, successfully (exit code 0)",
        "its schedule starts it in 4 min",
        True,
    ),
    (
        "Holdfast ends",
        facts(S.BACKOFF, code=1, failures=1, is_retiring=True, next_start_in=3.0),
        "it failed 12 s ago (exit code 1) and waits for its next start",
        "nothing is started any more, because Holdfast is being shut down",
        False,
    ),
]


@pytest.mark.parametrize(
    ("known", "why", "then", "fine"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE]
)
def test_sentences(known: Evidence, why: str, then: str, fine: bool) -> None:
    """Each state is explained, and what follows from it."""
    assert explanation.why(known) == why
    assert explanation.next_step(known) == then
    assert explanation.is_fine(known) is fine


def test_every_state_is_in_the_table() -> None:
    """None of the nine states is left out."""
    assert {known.state for _, known, *_ in TABLE} == set(State)


@given(
    state=st.sampled_from(list(State)),
    desired=st.sampled_from(list(Desired)),
    policy=st.sampled_from(["always", "on_failure", "never"]),
    code=st.one_of(st.none(), st.integers(0, 255)),
    failures=st.integers(0, 20),
    seconds=st.floats(0, 10**7),
    reason=st.one_of(st.none(), st.text(max_size=20)),
    flags=st.tuples(*[st.booleans()] * 5),
    stage=st.sampled_from([None, "exec", "directory", "of another version"]),
)
def test_anything_can_be_explained(
    state: State, desired: Desired, policy: Any, code: int | None, failures: int, seconds: float,
    reason: str | None, flags: tuple[bool, ...], stage: str | None,
) -> None:  # fmt: skip
    """Whatever is known, there is a sentence, and it says nothing of None."""
    known = Evidence(
        spec(restart_policy=policy), state, desired, seconds, reason=reason, code=code,
        failures=failures, is_suppressed=flags[0], has_verdict=flags[1], is_outdated=flags[2],
        waiting_for=("db",) if flags[3] else (), is_ready=flags[4], stage=stage,
    )  # fmt: skip
    words = [explanation.why(known), explanation.next_step(known), *explanation.hints(known)]
    explanation.is_fine(known)
    assert all(words)
    assert "None" not in " ".join(words).replace(reason or "\0", "")


def test_what_repeats_is_told_once() -> None:
    """The same, several times in a row, is one happening with a number."""
    failed = {"kind": EventKind.HEALTH_FAILED.value, "data": {"probe": "liveness", "reason": "500"}}
    ready = {"kind": EventKind.SERVICE_READY.value, "data": {}}
    told = [text for _, text in event_sentences.sentences_of([failed, failed, ready, failed])]
    check = "a check failed: liveness, 500"
    assert told == [f"{check} (2 times)", "became ready", check]


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [
        (0, None, "success"),
        (127, None, "did not find the command"),
        (126, None, "could not run it"),
        (137, None, "SIGKILL"),
        (137, None, "memory"),
        (143, None, "SIGTERM"),
        (78, None, "configuration"),
        (42, None, "defined by the program; see its documentation"),
        (None, "SIGKILL", "memory"),
        (None, "SIGSEGV", "native code"),
        (None, "SIGUSR1", "SIGUSR1"),
        (None, None, ""),
    ],
)
def test_endings_in_words(code: int | None, signal: str | None, words: str) -> None:
    """Codes and signals say what they usually mean."""
    assert words in diagnosis.ending_words(code, signal)


STAGES = [
    ("exec", "running nope: No such file or directory", ("nope",), "in the PATH"),
    ("exec", "running ./nope: No such file or directory", ("./nope",), "looked up from /srv"),
    ("exec", "running ./x: Permission denied", ("./x",), "chmod +x"),
    ("exec", "running ./x: Exec format error", ("./x",), "#! line"),
    ("directory", "entering directory /x: No such file", ("x",), "does the folder exist"),
    ("user", "x", ("x",), "root"),
    ("room", "cpu is at 100 %", ("x",), "limits: {queue_when_busy: true}"),
    ("something new", "x", ("x",), ""),
]


@pytest.mark.parametrize(("stage", "reason", "argv", "words"), STAGES)
def test_stages(stage: str, reason: str, argv: tuple[str, ...], words: str) -> None:
    """A failed step of starting says what to look at."""
    assert words in diagnosis.stage_hint(stage, reason, argv, "/srv")


LINES = [
    ("ModuleNotFoundError: No module named 'flask'", "flask"),
    ("Error: Cannot find module 'express'", "npm install"),
    ("sh: 1: gunicorn: not found", "gunicorn"),
    ("bash: foo: command not found", "foo"),
    ("connect ECONNREFUSED 127.0.0.1:5432", "depends_on"),
    ("FATAL ERROR: JavaScript heap out of memory", "memory"),
    ("OSError: [Errno 28] No space left on device", "disk is full"),
    ("OSError: [Errno 24] Too many open files", "rlimits"),
    ("PermissionError: [Errno 13] Permission denied: '/etc/shadow'", "/etc/shadow"),
]


@pytest.mark.parametrize(("line", "words"), LINES)
def test_lines_of_output(line: str, words: str) -> None:
    """Well-known complaints are recognised."""
    assert words in " ".join(diagnosis.line_hints(["fine", line]))


PORTS = [
    ("Error: listen EADDRINUSE: address already in use :::3000", [3000]),
    ("OSError: [Errno 98] Address already in use", []),
    ("bind 127.0.0.1:8080: address already in use", [8080]),
    ("Port 5173 is in use, trying another one...", [5173]),
    ("listening on :3000", []),
]


@pytest.mark.parametrize(("line", "ports"), PORTS)
def test_ports_in_use(line: str, ports: list[int]) -> None:
    """The port that is taken is found in what the service says."""
    assert diagnosis.ports_in_use([line]) == ports


def test_hints_name_who_holds_the_port() -> None:
    """The holder is named with its pid, and its service if it is one of ours."""
    line = "Error: listen EADDRINUSE: address already in use :::3000"
    known = facts(S.FAILED, code=1, lines=(line,), holders=(PortListener(3000, 123, "node", None),))
    assert explanation.hints(known)[0] == "port 3000 is used by pid 123 (node)"
    ours = facts(S.FAILED, code=1, lines=(line,), holders=(PortListener(3000, 5, "node", "api"),))
    assert explanation.hints(ours)[0] == "port 3000 is used by pid 5 (node, of the service api)"
    nobody = facts(S.FAILED, code=1, lines=("Address already in use",))
    assert any("in use by another process" in hint for hint in explanation.hints(nobody))


def test_hints_tell_of_changes() -> None:
    """What changed since the last good run is a hint for what fails, and only for that."""
    failed = facts(S.FAILED, code=1, changed_fields=("argv", "env.PORT"))
    assert "configuration changed: argv and env.PORT" in " ".join(explanation.hints(failed))
    fine = facts(S.RUNNING, changed_fields=("argv",), is_outdated=True)
    assert explanation.hints(fine) == [
        "it is still running with the old configuration; `holdfast restart web` applies it"
    ]


def test_what_happened_is_told_in_words() -> None:
    """Every decisive event has words, with and without its facts."""
    for kind in event_sentences.DECISIVE:
        assert event_sentences.sentence_of({"kind": kind, "data": {}})
    assert event_sentences.sentence_of({"kind": EventKind.TRANSITION.value, "data": {}}) is None
    told = event_sentences.sentence_of(
        {"kind": "exit", "data": {"reason": "exit code 3", "seconds": 61.0}}
    )
    assert told == "ended after 1 min 1 s: exit code 3"
