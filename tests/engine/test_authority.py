"""Lockdowns, modes and approvals: what holds, over deaths and broken files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.lockdown_file import LockdownFile
from holdfast.engine.authority.approvals import (
    MOST_OF_ACCOUNT,
    MOST_OF_ONE,
    MOST_WAITING,
    REPLACED,
    ApprovalQueue,
    PendingApproval,
)
from holdfast.engine.authority.lockdown import LockdownSwitch
from holdfast.engine.authority.modes import Modes
from holdfast.rules.authority.modes import effective
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.authority import ApprovalInfo
from holdfast.vocabulary.errors import Failed, Refused, UsageError
from holdfast.vocabulary.services import Restart
from holdfast.vocabulary.specs.policies import FilterSpec, PolicySpec
from holdfast.vocabulary.specs.settings import Settings

POLICY = PolicySpec(name="db", effect="confirm", approve_within=5.0)


class World:
    """A keeper's memory, a recorder and a clock of the test's own."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.boot_id = "boot"

    def keep(self, key: str, value: str | None) -> None:
        if value is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = value

    def request(self, message: Any, then: Callable[[Any], None]) -> None:
        self.asked.append(message)

    def event(self, kind: Any, service: str | None = None, run_id: Any = None, **data: Any) -> None:
        self.events.append((kind.value, data))

    def monotonic(self) -> float:
        return 0.0

    def time(self) -> float:
        return 1000.0

    def later(self, seconds: float, call: Callable[[], None]) -> World:
        self.timers.append((seconds, call))
        return self

    def cancel(self) -> None:
        """A timer."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def lockdown(world: World, folder: Path) -> LockdownSwitch:
    return LockdownSwitch(LockdownFile(str(folder)), world, world, world)  # type: ignore[arg-type]


class Decided:
    """A future without a loop."""

    info: ApprovalInfo | None = None

    def done(self) -> bool:
        return self.info is not None

    def set_result(self, info: ApprovalInfo) -> None:
        self.info = info

    def result(self) -> ApprovalInfo:
        assert self.info is not None
        return self.info


def approvals(world: World) -> ApprovalQueue:
    return ApprovalQueue(world, world, world, world.later, Decided)  # type: ignore[arg-type]


def ask(found: ApprovalQueue, name: str = "token ci") -> PendingApproval:
    actor = Actor(Role.OPERATOR, name)
    return found.ask(actor, Restart(service="db"), POLICY, "why", (), {"arguments": {}})


def test_a_lockdown_outlives_its_supervisor(tmp_path: Path) -> None:
    """By its file, which only the owner may read; ended, it stays so."""
    world = World()
    lockdown(world, tmp_path).begin("a token leaked: password=hunter2secret", "boss")
    path = tmp_path / "lockdown.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "hunter2secret" not in path.read_text()
    after = lockdown(World(), tmp_path)
    after.restore({})
    assert after.now is not None
    assert after.now.by == "boss"
    after.end("boss")
    again = lockdown(world, tmp_path)
    again.restore({})
    assert again.now is None


@pytest.mark.parametrize("broken", [b"", b"{", b'{"reason": 5}', b"\xff\xfe", b"null"])
def test_what_cannot_be_read_is_a_lockdown(tmp_path: Path, broken: bytes) -> None:
    """Nobody gets out of one by breaking its file; unlocking works."""
    (tmp_path / "lockdown.json").write_bytes(broken)
    found = lockdown(World(), tmp_path)
    found.restore({})
    assert found.now is not None
    assert "cannot be read" in found.now.reason
    found.end("boss")
    assert not (tmp_path / "lockdown.json").exists()


def test_a_folder_in_its_place_is_a_lockdown_too(tmp_path: Path) -> None:
    """And it stays one as long as it cannot be removed."""
    (tmp_path / "lockdown.json").mkdir()
    found = lockdown(World(), tmp_path)
    found.restore({})
    assert found.now is not None
    with pytest.raises(Failed, match="the lockdown stays"):
        found.end("boss")
    assert found.now is not None


def test_who_removes_the_file_ends_nothing(tmp_path: Path) -> None:
    """The keeper remembers, and the file is there again."""
    world = World()
    lockdown(world, tmp_path).begin("leak", "boss")
    (tmp_path / "lockdown.json").unlink()
    found = lockdown(world, tmp_path)
    found.restore(dict(world.kept))
    assert found.now is not None
    assert found.now.reason == "leak"
    assert (tmp_path / "lockdown.json").exists()


def test_a_full_disk_prevents_no_lockdown(tmp_path: Path) -> None:
    """It is in force, and says what it would not survive."""
    world = World()
    found = lockdown(world, tmp_path / "nowhere")
    told = found.begin("leak", "boss")
    assert told is not None
    assert "not stored" in told
    assert found.now is not None
    assert "lockdown" in world.kept


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501, "two\nlines"])
def test_a_lockdown_needs_a_reason(tmp_path: Path, reason: str) -> None:
    """One line that people can read."""
    with pytest.raises(UsageError):
        lockdown(World(), tmp_path).begin(reason, "boss")


def test_one_that_waits_is_decided_once() -> None:
    """Who comes later is told how it ended."""
    world = World()
    found = approvals(world)
    pending = ask(found)
    assert found.settle(pending, "approved", "boss", None).state == "approved"
    assert found.settle(pending, "rejected", "late", None).state == "approved"
    assert pending.decided.result().by == "boss"
    with pytest.raises(Failed, match="approved already by boss"):
        found.find(pending.info.approval)
    assert not world.kept
    assert [kind for kind, _ in world.events] == ["approval:requested", "approval:approved"]


def test_one_that_waits_too_long_is_refused() -> None:
    """After the time that its policy says."""
    world = World()
    found = approvals(world)
    pending = ask(found)
    seconds, expire = world.timers[0]
    assert seconds == POLICY.approve_within
    expire()
    info = pending.decided.result()
    assert (info.state, info.why) == ("expired", "nobody approved it within 5s")


def test_few_may_wait() -> None:
    """Of one, and of all."""
    found = approvals(World())
    for _ in range(MOST_OF_ONE):
        ask(found)
    with pytest.raises(Refused, match=f"{MOST_OF_ONE} requests"):
        ask(found)
    for number in range(MOST_WAITING - MOST_OF_ONE):
        ask(found, f"token {number}")
    with pytest.raises(Refused, match=f"{MOST_WAITING} requests"):
        ask(found, "token new")
    assert len(found.void_all("lockdown")) == MOST_WAITING
    assert not found.waiting


def test_sessions_of_one_opener_leave_room_for_others() -> None:
    """However many it opens."""
    found = approvals(World())
    opener = Actor(Role.OPERATOR, "token busy", token="busy")

    def ask_in(session: str) -> None:
        actor = Actor(Role.AGENT, "agent", session=session, behind=opener)
        found.ask(actor, Restart(service="db"), POLICY, "why", (), {"arguments": {}})

    for number in range(MOST_OF_ACCOUNT):
        ask_in(f"session-{number}")
    with pytest.raises(Refused, match=f"{MOST_OF_ACCOUNT} requests"):
        ask_in("session-more")
    ask(found, "token other")


def test_a_new_supervisor_says_what_is_void() -> None:
    """With what the audit is to say; and once."""
    world = World()
    pending = ask(approvals(world))
    found = approvals(world)
    assert len(found.restore(dict(world.kept))) == 1
    kind, data = world.events[-1]
    assert (kind, data["why"]) == ("approval:expired", REPLACED)
    assert data["approval"] == pending.info.approval
    assert found.restore(dict(world.kept)) == []
    assert found.restore({"approval:x": "garbage"}) == []


@pytest.mark.parametrize(
    ("by_hand", "configured", "needs", "mode"),
    [
        (None, "proxy", False, "proxy"),
        (None, "advanced", False, "advanced"),
        ("advanced", "proxy", False, "advanced"),
        ("proxy", "advanced", False, "proxy"),
        ("proxy", "advanced", True, "advanced"),
    ],
)
def test_which_mode_is_in_force(by_hand: Any, configured: Any, needs: bool, mode: str) -> None:
    """What is set by hand, unless policies would be left out."""
    assert effective(by_hand=by_hand, configured=configured, needs_advanced=needs) == mode


def modes(world: World, **environ: str) -> Modes:
    return Modes(world, world, environ, {"tcp": "127.0.0.1:8081"})


def test_a_supervisor_learns_its_mode_from_its_environment() -> None:
    """Under both names; what is no mode is none."""
    assert modes(World(), HOLDFAST_RUNTIME_MODE="advanced").now == "advanced"
    assert modes(World(), MAGICTUNNEL_RUNTIME_MODE="advanced").now == "advanced"
    assert modes(World(), HOLDFAST_RUNTIME_MODE="root").now == "proxy"


def test_the_container_loads_what_its_mode_names() -> None:
    """And counts it."""
    core = modes(World()).container.describe()
    assert core.advanced_services is None
    assert core.service_count == len(core.proxy_services)
    assert "tcp_control" in core.proxy_services
    more = modes(World(), HOLDFAST_RUNTIME_MODE="advanced").container.describe()
    assert more.advanced_services is not None
    assert more.service_count == len(more.proxy_services) + len(more.advanced_services)
    assert {"audit", "roles", "redaction", "allowlists"} <= set(core.proxy_services)


def test_a_switch_is_the_next_supervisors() -> None:
    """Announced, remembered for its environment, and asked of the keeper."""
    world = World()
    found = modes(world)
    found.switch("advanced", "boss")()
    assert found.now == "proxy"
    assert world.asked == [{"do": "supervise", "on": True, "again": True}]
    environment = json.loads(world.kept["supervisor_environment"])
    following = modes(world, **environment)
    following.restore(dict(world.kept))
    following.on_settings(Settings(runtime_mode="proxy"))
    assert following.now == "advanced"
    assert [kind for kind, _ in world.events] == ["mode:switching", "mode:switched"]
    assert world.events[0][1]["message"] == "Mode switching..."


@pytest.mark.parametrize(
    "settings", [{"policies": (POLICY,)}, {"filters": FilterSpec(max_length=5)}]
)
def test_what_restricts_is_not_switched_off(settings: dict[str, Any]) -> None:
    """Mode proxy would widen what everybody may do."""
    found = modes(World())
    found.on_settings(Settings(runtime_mode="advanced", **settings))
    assert found.now == "advanced"
    assert found.why_not("proxy") is not None
    assert found.why_not("advanced") is None
