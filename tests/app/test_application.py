"""Identify, permit, dispatch: who may do what through any door."""

from __future__ import annotations

import os

import pytest

from holdfast.adapters.processes import Peer, ancestors
from holdfast.app.application import Application, SupervisedProcesses
from holdfast.vocabulary.actors import Role
from holdfast.vocabulary.commands.holdfast import Shutdown
from holdfast.vocabulary.errors import Refused


class Link:
    """A link that knows some runs."""

    def __init__(self, runs: dict[str, dict[str, object]], keeper_pid: int = 0) -> None:
        self.runs, self.keeper_pid = runs, keeper_pid


class Desk:
    def __init__(self, link: Link) -> None:
        self.link = link


def application(runs: dict[str, dict[str, object]], keeper_pid: int = 0) -> Application:
    desk = Desk(Link(runs, keeper_pid))
    return Application(desk, SupervisedProcesses(desk))


def test_a_peer_of_ours_is_the_owner() -> None:
    """The user who runs Holdfast needs no token."""
    assert application({}).identify(Peer(os.geteuid(), os.getpid())).role is Role.OWNER


def test_another_user_is_refused() -> None:
    """A different uid that is not root never becomes an actor."""
    with pytest.raises(Refused, match="belongs to another user"):
        application({}).identify(Peer(os.geteuid() + 4242, os.getpid()))


def test_a_descendant_of_a_run_is_an_agent() -> None:
    """Found by its ancestors, even if it cleared its environment; it may look, not change."""
    runs: dict[str, dict[str, object]] = {"run-1": {"pid": os.getppid()}}
    actor = application(runs).identify(Peer(os.geteuid(), os.getpid()))
    assert (actor.role, actor.run_id) == (Role.AGENT, "run-1")
    with pytest.raises(Refused, match="may look, not change") as caught:
        application(runs).dispatch(actor, Shutdown())
    assert caught.value.exit_code == 5
    assert caught.value.hint


def test_ancestors_begin_with_the_process_itself() -> None:
    """The chain goes from the process to its parents."""
    assert ancestors(os.getpid())[:2] == [os.getpid(), os.getppid()]
