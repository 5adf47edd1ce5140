"""What a configuration says about readiness and health, and the probes that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    LogTarget,
    NotifySpec,
    NotifyTarget,
    ProbeSpec,
    ProcessTarget,
    TcpTarget,
)
from holdfast.vocabulary.specs.services import ServiceSpec

URL = "http://localhost:1/h"


def service(tmp_path: Path, keys: str, top: str = "") -> ServiceSpec:
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"{top}\nservices:\n  web:\n    command: x\n    {keys}\n")
    return load(str(path), environ={"TOKEN": "s3cret"}).services["web"]


def probe(tmp_path: Path, keys: str, top: str = "") -> ProbeSpec:
    found = service(tmp_path, keys, top).probes
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("keys", "target"),
    [
        (f"http: '{URL}'", HttpTarget(url=URL)),
        (f"url: '{URL}'", HttpTarget(url=URL)),
        (f"http: '{URL}', status: 200", HttpTarget(url=URL, status=((200, 200),))),
        (
            f"http: '{URL}', status: [2xx, 301-303], method: HEAD, follow: yes, verify: no",
            HttpTarget(
                url=URL,
                status=((200, 299), (301, 303)),
                method="HEAD",
                follow=True,
                verify=False,
            ),
        ),
        (
            f"http: '{URL}', body: 'ok|up', headers: {{Authorization: 'Bearer ${{TOKEN}}'}}",
            HttpTarget(url=URL, body="ok|up", headers={"Authorization": "Bearer s3cret"}),
        ),
        ("tcp: 5432", TcpTarget(host="localhost", port=5432)),
        ("tcp: 'db.local:5432'", TcpTarget(host="db.local", port=5432)),
        ("tcp: '[::1]:80'", TcpTarget(host="::1", port=80)),
        ("exec: pg_isready -q", ExecTarget(argv=("pg_isready", "-q"))),
        ("command: [a, 'b c']", ExecTarget(argv=("a", "b c"))),
        ("exec: 'a && b', shell: true", ExecTarget(argv=("/bin/sh", "-c", "a && b"))),
        ("log: 'ready in \\d+'", LogTarget(pattern="ready in \\d+")),
    ],
)
def test_what_is_asked(tmp_path: Path, keys: str, target: object) -> None:
    """Every way to ask is read with its options and shorthands."""
    assert probe(tmp_path, f"liveness: {{{keys}}}").target == target


def test_a_health_check_is_liveness_and_readiness(tmp_path: Path) -> None:
    """Readiness only where none is declared; with the defaults 30 s, 10 s and 3."""
    alone = probe(tmp_path, f"health_check: {URL}")
    assert alone.roles == ("readiness", "liveness")
    assert (alone.interval, alone.timeout, alone.retries) == (30.0, 10.0, 3)
    both = service(tmp_path, f"health_check: {URL}\n    readiness: {{tcp: 1}}").probes
    assert [it.roles for it in both] == [("readiness",), ("liveness",)]
    spoken = service(tmp_path, f"health_check: {URL}\n    notify: true").probes
    assert [(it.roles, it.kind) for it in spoken] == [
        (("readiness",), "notify"),
        (("liveness",), "http"),
    ]


def test_the_older_names(tmp_path: Path) -> None:
    """health_check_url, health_check_interval and consecutive_failures say the same."""
    keys = f"health_check_url: {URL}\n    health_check_interval: 7\n    consecutive_failures: 5"
    found = probe(tmp_path, keys)
    assert (found.target, found.interval, found.retries) == (HttpTarget(url=URL), 7.0, 5)


def test_an_interval_alone_looks_at_the_process(tmp_path: Path) -> None:
    """As other supervisors do; where something else is asked, or nothing, it is no check."""
    found = probe(tmp_path, "health_check_interval: 7")
    assert (found.target, found.interval, found.name) == (ProcessTarget(), 7.0, "health_check")
    more = service(tmp_path, "health_check_interval: 7\n    readiness: {tcp: 1}").probes
    assert [(it.kind, it.interval) for it in more] == [("tcp", 7.0)]
    assert service(tmp_path, "health_check: {interval: 5}").probes == ()
    assert service(tmp_path, "autostart: true", "health_check: {interval: 5}").probes == ()


def test_defaults_of_the_top(tmp_path: Path) -> None:
    """They are for every probe, and no probe themselves unless they say what to ask."""
    top = "health_check: {interval: 5, timeout: 1, consecutive_failures: 9, action: report}"
    found = probe(tmp_path, "liveness: {tcp: 1, timeout: 2}", top)
    assert (found.interval, found.timeout, found.retries, found.action) == (5.0, 2.0, 9, "report")
    asked = probe(tmp_path, "autostart: true", "health_check: {tcp: 1, interval: 5}")
    assert (asked.target, asked.interval) == (TcpTarget(host="localhost", port=1), 5.0)
    own = probe(tmp_path, "health_check: {tcp: 2}", "health_check: {tcp: 1, interval: 5}")
    assert (own.target, own.interval) == (TcpTarget(host="localhost", port=2), 5.0)


def test_a_check_without_a_question_gives_defaults(tmp_path: Path) -> None:
    """`health_check` that asks nothing is meant for the other probes of the service."""
    keys = "health_check: {interval: 5}\n    readiness: {tcp: 1}"
    assert probe(tmp_path, keys).interval == 5.0


def test_a_log_is_asked_twice(tmp_path: Path) -> None:
    """Once in the run makes it ready; liveness needs a line in every interval."""
    found = service(tmp_path, "health_check: {log: tick, success_threshold: 2}").probes
    assert [(it.roles, it.success_threshold) for it in found] == [
        (("readiness",), 1),
        (("liveness",), 2),
    ]


@pytest.mark.parametrize(
    ("keys", "notify", "asked"),
    [
        ("notify: true", NotifySpec(), [("readiness", 30.0, 3)]),
        ("notify: {fd: 4}", NotifySpec(fd=4), [("readiness", 30.0, 3)]),
        (
            "notify: {watchdog: 5s}",
            NotifySpec(watchdog=5.0),
            [("readiness", 30.0, 3), ("liveness", 5.0, 1)],
        ),
        ("startup: notify", NotifySpec(), [("startup", 30.0, 3)]),
        ("readiness: {notify: true, retries: 9}", NotifySpec(), [("readiness", 30.0, 9)]),
        ("liveness: {notify: true, interval: 5}", NotifySpec(watchdog=5.0), [("liveness", 5.0, 1)]),
        ("notify: true\n    startup: notify", NotifySpec(), [("startup", 30.0, 3)]),
        ("notify: false", None, []),
    ],
)
def test_services_that_speak(
    tmp_path: Path, keys: str, notify: NotifySpec | None, asked: list[tuple[str, float, int]]
) -> None:
    """A socket for all who may speak; a watchdog is liveness with one chance."""
    found = service(tmp_path, keys)
    assert found.notify == notify
    assert [(it.roles[0], it.interval, it.retries) for it in found.probes] == asked
    assert {type(it.target) for it in found.probes} <= {NotifyTarget}


def test_an_explicit_readiness_is_the_only_one(tmp_path: Path) -> None:
    """`notify: true` beside it only lets the service speak."""
    found = service(tmp_path, "notify: true\n    readiness: {tcp: 1}")
    assert [it.kind for it in found.probes] == ["tcp"]
    assert found.notify == NotifySpec()
