"""Identify, permit, dispatch: who may do what through any door."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from holdfast.adapters.audit_log import AuditLog
from holdfast.app.application import Application
from holdfast.app.audit.auditor import MOST_REFUSALS, Auditor
from holdfast.system import processes, run_marks
from holdfast.system.peers import Peer
from holdfast.system.processes import Process
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.errors import Refused
from holdfast.vocabulary.holdfast import Shutdown
from holdfast.vocabulary.specs.settings import Settings


class Link:
    """A link that knows some runs."""

    def __init__(self, runs: dict[str, dict[str, object]], keeper_pid: int = 0) -> None:
        self.runs, self.keeper_pid = runs, keeper_pid
        self.cgroup_root: str | None = None
        self.ceilings: list[int] = []


class Records(AuditLog):
    """Records in memory."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def record(self, fields: dict[str, Any]) -> None:
        self.all.append(fields)


class Now:
    now = Settings()


class NoGate:
    run_id = None


class Unlocked:
    now = None


class Calm:
    lockdown, advanced = Unlocked(), None


class Desk:
    gate, authority = NoGate(), Calm()

    def __init__(self, link: Link) -> None:
        self.link = link
        self.settings = Now()


def process(pid: int) -> Process:
    found = processes.live_process(pid)
    assert found is not None
    return found


def main_of(process: Process) -> dict[str, object]:
    """A run as the keeper link lists it."""
    return {"pid": process.pid, "start_time": process.start_time}


def peer() -> Peer:
    return Peer(os.geteuid(), process(os.getpid()))


def application_of(desk: Any) -> Application:
    return Application(desk, Auditor(Records()))


def application(runs: dict[str, dict[str, object]], keeper_pid: int = 0) -> Application:
    desk = Desk(Link(runs, keeper_pid))
    return application_of(desk)


def test_a_peer_of_ours_is_the_owner() -> None:
    """The user who runs Holdfast needs no token."""
    assert application({}).identities.identify(peer()).role is Role.OWNER


def test_another_user_is_refused() -> None:
    """A different uid that is not root never becomes an actor."""
    with pytest.raises(Refused, match="belongs to another user"):
        application({}).identities.identify(Peer(os.geteuid() + 4242, process(os.getpid())))


def test_a_descendant_of_a_run_is_an_agent() -> None:
    """Found by its ancestors, even if it cleared its environment; it may look, not change."""
    runs: dict[str, dict[str, object]] = {"run-1": main_of(process(os.getppid()))}
    actor = application(runs).identities.identify(peer())
    assert (actor.role, actor.run_id) == (Role.AGENT, "run-1")
    with pytest.raises(Refused, match="may look, not change") as caught:
        application(runs).dispatch(actor, Shutdown())
    assert caught.value.exit_code == 5
    assert caught.value.hint


def test_who_is_gone_is_an_agent() -> None:
    """A peer that has ended, or is another process by now, may look, not change."""
    assert application({}).identities.identify(Peer(os.geteuid(), None)).role is Role.AGENT
    other = process(os.getpid())
    other.start_time = "1"
    assert application({}).identities.identify(Peer(os.geteuid(), other)).role is Role.AGENT


def test_another_user_who_is_gone_is_refused() -> None:
    """Doubt never gives a stranger the right to look."""
    with pytest.raises(Refused, match="belongs to another user"):
        application({}).identities.identify(Peer(os.geteuid() + 4242, None))


def test_a_recycled_pid_is_no_run() -> None:
    """Who has the pid of a run that ended is not taken for it."""
    runs: dict[str, dict[str, object]] = {"run-1": {"pid": os.getppid(), "start_time": "1"}}
    assert application(runs).identities.identify(peer()).role is Role.OWNER


@pytest.mark.parametrize(("root", "role"), [("", Role.OWNER), ("/holdfast-12ab", Role.AGENT)])
def test_who_is_in_our_cgroup_is_an_agent(
    monkeypatch: pytest.MonkeyPatch, root: str, role: Role
) -> None:
    """Wherever it came from, and whatever it says."""
    desk = Desk(Link({}))
    desk.link.cgroup_root = root or None
    monkeypatch.setattr(processes, "is_in_cgroup", lambda _, asked: asked == "/holdfast-12ab")
    assert application_of(desk).identities.identify(peer()).role is role


def test_an_orphan_of_the_keeper_is_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the keeper, but not below the supervisor."""
    own = peer()
    assert application({}, os.getppid()).identities.identify(own).role is Role.OWNER
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert application({}, os.getppid()).identities.identify(own).role is Role.AGENT


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's own")
def test_what_is_not_above_the_ceiling_is_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that nothing else tells of; with the mark of a run it is of that run."""
    desk, own = Desk(Link({"run-1": {"pid": 1, "start_time": "0"}})), peer()
    identities = application_of(desk).identities
    limits = run_marks.mark_of("run-1"), 1 << 61
    monkeypatch.setattr(run_marks, "read", lambda pid: limits)
    desk.link.ceilings = [(1 << 61) - 1]
    assert identities.identify(own).role is Role.OWNER
    desk.link.ceilings = [(1 << 61) - 1, 1 << 61]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    actor = identities.identify(own)
    assert (actor.role, actor.run_id) == (Role.AGENT, "run-1")
    monkeypatch.setattr(run_marks, "read", lambda pid: None)
    assert identities.identify(own).role is Role.AGENT, "what cannot be read"


def test_lineage_begins_with_the_process_itself() -> None:
    """The chain goes from the process to its parents."""
    line = processes.lineage(process(os.getpid()))
    assert [one.pid for one in line[:2]] == [os.getpid(), os.getppid()]


def test_a_run_does_not_pass_for_another() -> None:
    """What it says of itself counts less than whose child it is."""
    environ = {**os.environ, "HOLDFAST_RUN_ID": "other"}
    command = ["sh", "-c", "echo here; read never"]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            own = process(child.pid)
            runs: dict[str, dict[str, object]] = {
                "mine": {"pid": own.pid, "start_time": own.start_time},
                "other": {"pid": 1, "start_time": "0"},
            }
            actor = application(runs).identities.identify(Peer(os.geteuid(), own))
            assert (actor.role, actor.run_id) == (Role.AGENT, "mine")
            del runs["mine"]
            actor = application(runs).identities.identify(Peer(os.geteuid(), own))
            assert (actor.role, actor.run_id) == (Role.AGENT, "other")
        finally:
            child.kill()


def test_a_flood_of_refusals_is_counted() -> None:
    """One who is refused again and again does not push others off the record."""
    seconds = [1000.0]
    records = Records()
    auditor = Auditor(records, lambda: seconds[0])
    opener = Actor(Role.VIEWER, "token eyes", token="11")
    for number in range(1000):
        one = Actor(Role.AGENT, "claude", session=f"session-{number % 7}", behind=opener)
        auditor.refused(one, Shutdown(), "no")
    assert len(records.all) == MOST_REFUSALS
    assert "counted" in records.all[-1]["more"]
    auditor.refused(Actor(Role.VIEWER, "token other", token="12"), Shutdown(), "no")
    assert len(records.all) == MOST_REFUSALS + 1
    seconds[0] += 61
    auditor.refused(opener, Shutdown(), "no")
    assert records.all[-1]["unrecorded_before"] == 1000 - MOST_REFUSALS
