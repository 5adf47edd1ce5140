"""Stories of assistants that come, start things, and leave or vanish."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.vocabulary.errors import HoldfastError, Refused
from tests.harness import PYTHON, Hold, is_alive, kill_9, quick, wait_for


class Assistant:
    """A client with a session of its own, as the relay and the gate have one."""

    def __init__(self, hold: Hold, client: str = "claude", **fields: Any) -> None:
        self.hold = hold
        self.opened = hold.ask("open_session", client=client, **fields)
        self.session: str = self.opened["session"]["session"]
        self.token: str = self.opened["token"]

    def ask(self, command: str, call: str | None = None, **fields: Any) -> dict[str, Any]:
        caller = {"token": self.token, "door": "mcp", "call": call}
        return self.hold.ask(command, caller=caller, **fields)

    def held(self) -> Connection:
        """Hold the session on a connection that the test closes."""
        connection = Connection(str(self.hold.runtime / "line.sock"))
        caller = {"token": self.token, "door": "mcp"}
        item = next(connection.stream("hold_session", caller=caller))
        assert item["held"] is True
        return connection


@pytest.fixture(scope="module")
def shared() -> Iterator[Hold]:
    with Hold() as hold:
        hold.write(
            {
                "services": {
                    "web": quick(autostart=False),
                    "db": quick(autostart=False),
                    "kept": quick(autostart=False, on_session_end="keep"),
                    "always": quick(),
                    "broken": quick(["sh", "-c", "test -e repaired && exec sleep 1000"]),
                    "typed": quick(["cat"], stdin="pipe"),
                }
            }
        )
        hold.cli("up", "-d", expect=1)
        yield hold


@pytest.fixture
def hold(shared: Hold) -> Iterator[Hold]:
    yield shared
    for one in shared.ask("list_sessions")["sessions"]:
        shared.ask("close_session", session=one["session"])
    shared.ask("stop", services=["web", "db", "kept"])


def test_the_first_call_is_announced_once(hold: Hold) -> None:
    """An event names client and call; the list keeps it, also when the supervisor dies."""
    claude = Assistant(hold)
    claude.ask("status")
    assert hold.ask("list_sessions")["sessions"][0]["first_call"] is None
    claude.ask("status", call="list_services #1")
    claude.ask("status", call="logs #2")

    def announced() -> list[dict[str, Any]]:
        events = hold.ask("events", limit=1000)["events"]
        return [one["data"] for one in events if one["kind"] == "session:called"]

    wait_for(announced, what="the event")
    hold.kill_supervisor()
    claude.ask("status", call="logs #3")
    assert hold.ask("list_sessions")["sessions"][0]["first_call"] == "list_services #1"
    (told,) = announced()
    assert told == {"session": claude.session, "client": "claude", "call": "list_services #1"}


def test_what_a_session_starts_is_stopped_with_it(hold: Hold) -> None:
    """`status` names client and tool call; what ran before is nobody's but the user's."""
    claude = Assistant(hold)
    claude.ask("start", services=["web", "always"], call="control start web #3")
    status = hold.service("web")
    assert status["owner"]["session"] == claude.session
    assert (status["owner"]["client"], status["owner"]["call"]) == (
        "claude",
        "control start web #3",
    )
    assert "owner" not in hold.service("always")
    told = "started by claude through control start web #3"
    assert told in hold.cli("status").stdout
    assert f"{told} ({claude.session})" in hold.cli("explain", "web").stdout
    record = hold.ask("audit", about="start", limit=1)["records"][-1]
    assert (record["session"], record["call"]) == (claude.session, "control start web #3")
    closed = claude.ask("close_session")
    assert closed["stopped"] == ["web"]
    assert hold.service("web")["status"] == "stopped"
    assert "owner" not in hold.service("web")
    assert hold.service("always")["status"] == "running"
    with pytest.raises(HoldfastError, match="not known"):
        claude.ask("status")


def test_what_the_configuration_wants_is_never_a_sessions(hold: Hold) -> None:
    """An assistant that repairs a service, or stops and starts it, leaves it to the user."""
    claude = Assistant(hold)
    hold.wait_status("broken", "failed")
    (hold.project / "repaired").write_text("")
    assert claude.ask("start", services=["broken"])["services"]["broken"]["outcome"] == "started"
    claude.ask("stop", services=["always"])
    claude.ask("start", services=["always"])
    assert "owner" not in hold.service("broken")
    assert claude.ask("close_session")["stopped"] == []
    assert hold.service("broken")["status"] == "running"
    assert hold.service("always")["status"] == "running"


def test_a_session_may_leave_what_it_starts_to_the_user(hold: Hold) -> None:
    """With `keep`, as if the user had started it."""
    claude = Assistant(hold)
    claude.ask("start", services=["web"])
    claude.ask("restart", services=["web"], keep=True)
    claude.ask("start", services=["db"], keep=True)
    assert claude.ask("close_session")["stopped"] == []
    assert hold.service("web")["status"] == hold.service("db")["status"] == "running"


def test_explain_names_the_end_of_the_session(hold: Hold) -> None:
    """It is the cause of the stop, and nobody's request; a later request is told as such."""
    claude = Assistant(hold)
    claude.ask("start", services=["web"])
    claude.ask("close_session")
    (told,) = hold.ask("explain", service="web")["explanations"]
    assert "because the session of claude ended: it said goodbye" in told["summary"]
    assert any("so it was told to stop" in one["text"] for one in told["happened"])
    hold.ask("start", services=["web"])
    hold.ask("stop", services=["web"])
    (told,) = hold.ask("explain", service="web")["explanations"]
    assert "by request" in told["summary"]


@pytest.mark.parametrize(("fate", "owner"), [("keep", True), ("hand_over", False)])
def test_a_run_may_outlive_its_session(hold: Hold, fate: str, owner: bool) -> None:
    """Kept, it still says who started it; handed over, it is the user's."""
    claude = Assistant(hold, fate=fate)
    claude.ask("start", services=["web"])
    claude.ask("close_session")
    status = hold.service("web")
    assert status["status"] == "running"
    assert bool(status.get("owner", {}).get("ended")) is owner


def test_a_service_has_the_last_word_on_its_fate(hold: Hold) -> None:
    """`on_session_end: keep` outvotes a session that stops what it started."""
    claude = Assistant(hold, fate="stop")
    claude.ask("start", services=["kept", "web"])
    closed = claude.ask("close_session")
    assert (closed["kept"], closed["stopped"]) == (["kept"], ["web"])


def test_a_second_assistant_joins_and_what_runs_stays_until_both_left(hold: Hold) -> None:
    """No twin is started; the owner stays the first, then it is the second's."""
    first, second = Assistant(hold, "first"), Assistant(hold, "second")
    pid = first.ask("start", services=["web"])["services"]["web"]["pid"]
    joined = second.ask("start", services=["web"])["services"]["web"]
    assert (joined["outcome"], joined["pid"]) == ("already_running", pid)
    assert hold.service("web")["owner"]["client"] == "first"
    assert first.ask("close_session")["shared"] == ["web"]
    assert hold.service("web")["owner"]["client"] == "second"
    assert is_alive(pid)
    assert second.ask("close_session")["stopped"] == ["web"]
    wait_for(lambda: not is_alive(pid), what="the joined run to end")


def test_what_the_user_wants_too_is_the_users(hold: Hold) -> None:
    """A person's start of what an assistant runs takes it over."""
    claude = Assistant(hold)
    claude.ask("start", services=["web"])
    hold.ask("start", services=["web"])
    assert "owner" not in hold.service("web")
    assert claude.ask("close_session")["stopped"] == []
    assert hold.service("web")["status"] == "running"


def test_a_session_outlives_its_connection_by_a_grace(hold: Hold) -> None:
    """Held it stays; let go and silent, it ends, and what it started does."""
    claude = Assistant(hold, grace=1.0)
    connection = claude.held()
    claude.ask("start", services=["web"])
    assert hold.ask("list_sessions")["sessions"][0]["expires_in"] is None
    seq = hold.ask("events")["last"]
    connection.close()
    hold.wait_status("web", "stopped")
    events = hold.ask("events", since=seq)["events"]
    closed = [one for one in events if one["kind"] == "session:closed"]
    assert closed[0]["data"]["stopped"] == ["web"]
    assert "no sign of life" in closed[0]["data"]["reason"]


def lease_of_web(hold: Hold) -> dict[str, Any] | None:
    """What the keeper knows."""
    run_id = hold.service("web")["run_id"]
    keeper = KeeperConnection(str(hold.runtime / "keeper.sock"))
    try:
        runs = keeper.ask("list")["runs"]
        found = next(run for run in runs if run["run_id"] == run_id)["lease"]
        return None if found is None else {**found}
    finally:
        keeper.close()


def test_the_keeper_has_a_lease_for_who_is_not_held(hold: Hold) -> None:
    """So that a stuck supervisor does not keep alive what nobody wants; held, there is none."""
    claude = Assistant(hold, grace=60.0)
    claude.ask("start", services=["web"])
    found = wait_for(lambda: lease_of_web(hold))
    assert found["kind"] == "session"
    assert 60 < found["seconds"] <= 76
    connection = claude.held()
    wait_for(lambda: lease_of_web(hold) is None)
    connection.close()
    wait_for(lambda: lease_of_web(hold))
    claude.ask("close_session", fate="keep")
    assert hold.service("web")["status"] == "running"
    wait_for(lambda: lease_of_web(hold) is None)


def test_the_lease_goes_with_its_owner(hold: Hold) -> None:
    """The keeper ends nothing that others joined, or that is the user's by now."""
    first, second = Assistant(hold, "first", grace=60.0), Assistant(hold, "second", grace=600.0)
    first.ask("start", services=["web"])
    wait_for(lambda: lease_of_web(hold))
    second.ask("start", services=["web"])
    wait_for(lambda: lease_of_web(hold) is None, what="no lease while two want it")
    first.ask("close_session")
    found = wait_for(lambda: lease_of_web(hold), what="the lease of who is left")
    assert found["seconds"] > 500
    hold.ask("start", services=["web"])
    wait_for(lambda: lease_of_web(hold) is None, what="no lease of what is the user's")


def test_one_opener_cannot_use_up_all_sessions(hold: Hold) -> None:
    """The owner still finds room."""
    token = hold.ask("create_token", token_name="greedy", role="viewer")["text"]
    caller = {"token": token, "door": "mcp"}
    for _ in range(50):
        hold.ask("open_session", client="many", grace=60.0, caller=caller)
    with pytest.raises(HoldfastError, match="has 50 sessions already"):
        hold.ask("open_session", client="many", grace=60.0, caller=caller)
    Assistant(hold)
    hold.ask("revoke_token", token="greedy")


def test_a_killed_supervisor_ends_no_session(hold: Hold) -> None:
    """The run lives on, its owner is known, the token is good; time did not count meanwhile."""
    claude = Assistant(hold, grace=2.0)
    connection = claude.held()
    pid = claude.ask("start", services=["web"], call="c1")["services"]["web"]["pid"]
    kill_9(hold.supervisor_pid)
    connection.close()
    wait_for(lambda: _answers(claude), what="the next supervisor")
    status = hold.service("web")
    assert (status["pid"], status["owner"]["call"]) == (pid, "c1")
    again = claude.held()
    assert hold.ask("list_sessions")["sessions"][0]["owns"] == ["web"]
    again.close()
    hold.wait_status("web", "stopped")


def _answers(claude: Assistant) -> bool:
    try:
        return bool(claude.ask("status"))
    except OSError:
        return False


def test_rights_of_an_assistant(hold: Hold) -> None:
    """It looks and operates services; it runs nothing, types nothing, administers nothing."""
    claude = Assistant(hold)
    assert claude.ask("status")["services"]
    refused: list[tuple[str, dict[str, Any]]] = [
        ("run", {"argv": ["true"]}),
        ("send_input", {"service": "typed", "data": "x"}),
        ("create_token", {"token_name": "mine", "role": "admin"}),
        ("restart", {"services": ["web"], "args": ["-c", "evil"]}),
        ("shutdown", {}),
        ("reload", {}),
        ("open_session", {"client": "another"}),
        ("close_session", {"session": claude.session}),
        ("remove", {"services": ["web"]}),
    ]
    for command, fields in refused:
        with pytest.raises(HoldfastError) as caught:
            claude.ask(command, **fields)
        assert caught.value.code == "refused", command
    record = hold.ask("audit", about="shutdown", limit=1)["records"][-1]
    assert (record["session"], record["decision"]) == (claude.session, "refused")


def test_a_session_is_never_wider_than_its_token(hold: Hold) -> None:
    """A viewer's assistant only looks; one service's sees one; a revoked token ends it."""
    viewer = hold.ask("create_token", token_name="eyes", role="viewer")["text"]
    narrow = hold.ask("create_token", token_name="web only", role="operator", services=["web"])
    with pytest.raises(HoldfastError, match="viewer may look"):
        _with_token(hold, viewer).ask("start", services=["web"])
    limited = _with_token(hold, narrow["text"])
    assert list(limited.ask("status")["services"]) == ["web"]
    limited.ask("start", services=["web"])
    with pytest.raises(HoldfastError, match="limited to web"):
        limited.ask("start", services=["db"])
    hold.ask("revoke_token", token="web only")
    with pytest.raises(HoldfastError, match="not known"):
        limited.ask("status")
    hold.ask("revoke_token", token="eyes")


def test_what_a_token_made_ends_with_it(hold: Hold) -> None:
    """Tokens of tokens, and their sessions with what runs for them, when the first is revoked."""
    lead = hold.ask("create_token", token_name="lead", role="admin")["text"]
    fields = {"role": "admin", "caller": {"token": lead, "door": "rest"}}
    made = hold.ask("create_token", token_name="made", **fields)
    fields["caller"] = {"token": made["text"], "door": "rest"}
    last = hold.ask("create_token", token_name="last", **fields)["text"]
    other = hold.ask("create_token", token_name="other", role="viewer")["text"]
    by = {one["name"]: one["by"] for one in hold.ask("list_tokens")["tokens"]}
    assert (by["lead"], by["made"], by["last"]) == (None, "token lead", "token made")
    assistant = _with_token(hold, last)
    assistant.ask("start", services=["web"])
    revoked = hold.ask("revoke_token", token="lead")
    assert (revoked["also"], revoked["sessions"]) == (["made", "last"], [assistant.session])
    for token in (lead, made["text"], last, assistant.token):
        with pytest.raises(Refused, match="not known"):
            hold.ask("status", caller={"token": token, "door": "rest"})
    hold.ask("status", caller={"token": other, "door": "rest"})
    wait_for(lambda: hold.service("web")["status"] == "stopped")
    assert hold.ask("list_sessions")["sessions"] == []
    hold.ask("revoke_token", token="other")


def _with_token(hold: Hold, token: str) -> Assistant:
    class ByToken(Assistant):
        def __init__(self) -> None:
            self.hold = hold
            caller = {"token": token, "door": "mcp"}
            opened = hold.ask("open_session", client="remote", caller=caller)
            self.session, self.token = opened["session"]["session"], opened["token"]

    return ByToken()


def test_the_token_is_stored_nowhere(hold: Hold) -> None:
    """Its file is private and has a hash; no event, audit record or list tells it."""
    claude = Assistant(hold)
    path = hold.state / "sessions.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = claude.token[-20:]
    assert secret not in path.read_text()
    assert secret not in json.dumps(hold.ask("events", limit=1000))
    assert secret not in json.dumps(hold.ask("audit", limit=1000))
    assert secret not in json.dumps(hold.ask("list_sessions"))
    told = hold.cli("sessions").stdout
    assert claude.session in told
    assert "claude" in told


OPEN = """
import json, socket, sys, time
door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
lines = door.makefile("rw")
def ask(**frame):
    lines.write(json.dumps(frame) + "\\n"); lines.flush()
    return json.loads(lines.readline())
opened = ask(id=1, command="open_session", client="inside")
token = opened["result"]["token"]
started = ask(id=2, command="start", services=["web"], caller={"token": token, "door": "mcp"})
looked = ask(id=3, command="status", caller={"token": token, "door": "mcp"})
print(json.dumps([opened["ok"], started["ok"], looked["ok"], token]), flush=True)
time.sleep(300)
"""


def test_a_supervised_run_gets_a_session_that_looks(hold: Hold) -> None:
    """It cannot make itself more than it is, and its session ends with the run."""
    socket = str(hold.runtime / "line.sock")
    hold.ask("run", argv=[PYTHON, "-c", OPEN, socket], service="agent", working_dir="/")
    line = wait_for(lambda: hold.raw("agent").decode().strip(), what="its words")
    opened, started, looked, token = json.loads(line)
    assert (opened, started, looked) == (True, False, True)
    hold.ask("stop", services=["agent"], grace=0)
    with pytest.raises(HoldfastError, match="not known"):
        hold.ask("status", caller={"token": token, "door": "mcp"})
    hold.ask("remove", services=["agent"])


def test_every_beginning_and_end_of_a_session_is_on_record(hold: Hold) -> None:
    """With its name, once, whatever ended it: a goodbye, silence, a revoked token, a lockdown."""
    names = {}
    leaving = Assistant(hold, "leaving")
    leaving.ask("close_session")
    names["leaving"] = (leaving.session, "said goodbye")
    closed = Assistant(hold, "closed")
    hold.ask("close_session", session=closed.session)
    names["closed"] = (closed.session, "closed it")
    silent = Assistant(hold, "silent", grace=0.2)
    silent.ask("start", services=["web"])
    names["silent"] = (silent.session, "no sign of life")
    wait_for(lambda: not hold.ask("list_sessions")["sessions"])
    made = hold.ask("create_token", token_name="brief", role="operator")["text"]
    caller = {"token": made, "door": "rest"}
    named = hold.ask("open_session", client="revoked", caller=caller)["session"]["session"]
    hold.ask("revoke_token", token="brief")
    names["revoked"] = (named, "not valid any more")
    stopped = Assistant(hold, "stopped")
    hold.ask("lockdown", reason="a drill")
    names["stopped"] = (stopped.session, "a lockdown began")
    wait_for(lambda: not hold.ask("list_sessions")["sessions"])
    wait_for(lambda: hold.ask("get_mode")["runtime_mode"] == "advanced")
    hold.ask("unlock")

    def records() -> list[dict[str, Any]]:
        return list(hold.ask("audit", limit=1000)["records"])

    for client, (session, why) in names.items():
        found = wait_for(
            lambda session=session: (
                (
                    about := [
                        one
                        for one in records()
                        if one.get("session") == session and one["command"].endswith("_session")
                    ]
                )
                and len(about) >= 2
                and about
            )
        )
        assert [one["command"] for one in found] == ["open_session", "close_session"], client
        assert why in found[1]["reason"] or client in ("leaving", "closed"), found[1]
    assert (
        "close_session because=there was no sign of life for its grace client=silent"
        in hold.cli("audit").stdout
    )
    (end,) = [one for one in records() if one.get("session") == silent.session][-1:]
    assert (end["actor"], end["result"]) == ("Holdfast itself", {"stopped": ["web"]})
    assert hold.ask("audit", verify=True)["verdict"]["whole"]
