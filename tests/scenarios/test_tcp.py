"""The TCP door: netcat, telnet and programs; nobody without a token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.doors import connection as line_connection
from holdfast.doors.tcp import MOST_CONNECTIONS, MOST_OF_TOKEN
from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, kill_9, wait_for

STRANGER = "stranger on this port"
SESAME = "Kq3-vT9x_Zr7mWp2Lc8Y"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Wire:
    """A client as netcat is one."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.sock.makefile("rb")

    def send(self, *lines: str) -> None:
        self.sock.sendall("".join(f"{line}\n" for line in lines).encode())

    def line(self) -> str:
        return self.file.readline().decode().rstrip("\n")

    def json(self) -> Any:
        return json.loads(self.line())

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.sock.close()


def piped(port: int, *lines: str) -> str:
    """As `printf … | nc`: everything at once, then the end, then what was answered."""
    with Wire(port) as wire:
        wire.send(*lines)
        wire.sock.shutdown(socket.SHUT_WR)
        return wire.file.read().decode()


class NetHold(Hold):
    """A Holdfast with its TCP door open."""

    def __init__(self) -> None:
        super().__init__(HOLDFAST_TCP="on")
        self.port = free_port()

    def declare(self, **security: Any) -> None:
        services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
        self.write({"port": self.port, "security": security, "services": services})

    def open(self) -> None:
        self.up()
        wait_for(lambda: "tcp" in self.status()["supervisor"]["doors"], what="the door to open")

    @property
    def token(self) -> str:
        return (self.state / "admin.token").read_text().strip()


@pytest.fixture
def hold() -> Iterator[NetHold]:
    with NetHold() as made:
        yield made


@pytest.fixture
def opened(hold: NetHold) -> NetHold:
    hold.declare()
    hold.open()
    return hold


def test_netcat_and_telnet(opened: NetHold) -> None:
    """`printf 'token …\\nstatus\\n' | nc`; many lines on one connection, in order."""
    answer = piped(opened.port, f"token {opened.token}", "status\r", "restart web", "nonsense")
    lines = answer.splitlines()
    assert lines[0].startswith("hello, token first admin")
    assert lines[1].startswith("holdfast ")
    assert lines[2].startswith("web: running, pid ")
    assert lines[3].startswith("web: restarted, pid ")
    assert lines[4].startswith('error: no word "nonsense"')


def test_tagged_and_flat_json(opened: NetHold) -> None:
    """As source programs write them, with nulls for what is not meant."""
    with Wire(opened.port) as wire:
        wire.send(json.dumps({"token": opened.token}), '"Status"', '{"Restart": {"args": null}}')
        assert wire.json()["ok"]
        assert wire.json()["result"]["services"]["web"]["status"] == "running"
        assert wire.json()["result"]["services"]["web"]["outcome"] == "restarted"
        wire.send(json.dumps({"id": "x", "command": "stop", "token": opened.token}))
        answer = wire.json()
        assert (answer["id"], answer["result"]["services"]["web"]["outcome"]) == ("x", "stopped")


def test_requests_with_an_id_do_not_wait_for_each_other(opened: NetHold) -> None:
    """A long wait does not hold up a status on the same connection."""
    with Wire(opened.port) as wire:
        wire.send(json.dumps({"token": opened.token}))
        wire.json()
        wire.send('{"id": 1, "command": "wait", "service": "web", "condition": "exited"}')
        wire.send('{"id": 2, "command": "status"}')
        assert wire.json()["id"] == 2
        opened.cli("stop", "web")
        assert wire.json()["id"] == 1


@pytest.mark.parametrize("line", ["logs web", '"Stop"', "shutdown", '{"command": "stop"}'])
def test_nobody_without_a_token(opened: NetHold, line: str) -> None:
    """The owner's own programs see the status and do nothing; it is told in the caller's form."""
    answer = piped(opened.port, line)
    assert "a token is needed" in answer
    assert answer.startswith("{") is line.startswith(("{", '"'))
    assert opened.service("web")["status"] == "running"


def test_a_browser_is_hung_up_on(opened: NetHold) -> None:
    """Whatever a page makes it send, a good token with it, and that is on record."""
    body = json.dumps({"command": "status", "token": opened.token})
    told = piped(opened.port, "POST /x HTTP/1.1\r", "User-Agent: Mozilla/5.0\r", "\r", body)
    head, _, rest = told.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400 ")
    assert rest == "this is the control door, which does not speak HTTP\n"
    record = opened.ask("audit", about="HTTP")["records"][-1]
    assert (record["decision"], record["door"]) == ("refused", "tcp")


def test_who_shows_no_token_keeps_nobody_out(opened: NetHold) -> None:
    """However many of them there are; who has shown one stays."""
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(Wire(opened.port))
        known.send(f"token {opened.token}")
        assert known.line().startswith("hello")
        crowd = [stack.enter_context(Wire(opened.port)) for _ in range(MOST_CONNECTIONS + 20)]
        assert piped(opened.port, f"token {opened.token}", "status").startswith("hello")
        assert "too many connections" in crowd[0].line()
        known.send("status")
        assert known.line().startswith("holdfast")


def test_one_token_keeps_nobody_out(opened: NetHold) -> None:
    """It has a share of the connections, and loses its own oldest one beyond it."""
    viewer = opened.ask("create_token", token_name="many", role="viewer")["text"]
    with contextlib.ExitStack() as stack:
        crowd = []
        for _ in range(MOST_OF_TOKEN + 5):
            crowd.append(stack.enter_context(Wire(opened.port)))
            crowd[-1].send(f"token {viewer}")
            assert crowd[-1].line().startswith("hello")
        assert "too many connections with this token" in crowd[0].line()
        crowd[-1].send("status")
        assert crowd[-1].line().startswith("holdfast")
        assert piped(opened.port, f"token {opened.token}", "status").startswith("hello")


def test_unfinished_lines_of_strangers_are_bounded(opened: NetHold) -> None:
    """Forty halves of a long line: most are hung up on, and a token is heard."""
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Wire(opened.port)) for _ in range(40)]
        for wire in crowd:
            with contextlib.suppress(OSError):
                wire.sock.sendall(b"x" * 1_000_000)
        assert piped(opened.port, f"token {opened.token}", "status").startswith("hello")
        ended = 0
        for wire in crowd:
            wire.sock.settimeout(0.2)
            with contextlib.suppress(OSError):
                ended += "without a token" in wire.line()
        assert ended >= 30


def test_lines_that_wait_are_bounded_in_bytes(opened: NetHold) -> None:
    """Behind a request that takes long, no gigabyte is collected in the supervisor."""
    with Wire(opened.port) as wire:
        wire.send(f"token {opened.token}")
        assert wire.line().startswith("hello")
        wire.send('{"command": "wait", "service": "web", "condition": "exited", "timeout": 60}')
        wire.send(*[f"status {'x' * 500_000}"] * 10)
        assert "too many requests wait" in wire.line()


def test_who_never_reads_is_not_kept(opened: NetHold, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is to end, but whose client reads nothing, is cut off after a while."""
    monkeypatch.setattr(line_connection, "LINGER_SECONDS", 0.05)

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        connections: line_connection.Connections[Deaf] = line_connection.Connections()
        server = await loop.create_server(lambda: Deaf(connections), "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()):
            deadline = loop.time() + 10
            while not connections or not next(iter(connections)).is_told:
                assert loop.time() < deadline
                await asyncio.sleep(0.01)
            while connections:
                assert loop.time() < deadline, "kept for ever"
                await asyncio.sleep(0.01)
        server.close()

    asyncio.run(scene())


class Deaf(line_connection.LineConnection):
    """Tells much, and hangs up."""

    is_told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._write(b"x" * 50_000_000)
        self.hang_up()
        self.is_told = True

    def _take(self, line: bytes) -> None:
        raise AssertionError

    def _turn_away(self, error: HoldfastError) -> None:
        raise AssertionError


def test_a_wrong_token_is_refused_and_then_hung_up_on(opened: NetHold) -> None:
    """Three times, and it is on record."""
    answer = piped(opened.port, *["token holdfast_00000000_wrong"] * 10)
    assert answer.count("error:") == 3
    last = json.loads(opened.cli("audit", "--json").stdout.splitlines()[-1])
    assert (last["actor"], last["decision"]) == ("somebody unknown", "refused")


def test_open_status_opens_status_and_nothing_else(hold: NetHold) -> None:
    """`echo status | nc`."""
    hold.declare(open_status=True)
    hold.open()
    assert "web: running" in piped(hold.port, "status")
    assert "a token is needed" in piped(hold.port, "stop web")
    assert "a token is needed" in piped(hold.port, "logs web")
    assert hold.service("web")["status"] == "running"


def test_allowed_commands_and_the_configured_token(hold: NetHold) -> None:
    """They bind the network door; the local command line is never locked out."""
    hold.declare(
        allowed_commands=["status", "restart"], authentication={"enabled": True, "token": SESAME}
    )
    hold.open()
    answer = piped(hold.port, f"token {SESAME}", "status", "stop web")
    assert "web: running" in answer
    assert "allowed_commands are status, restart" in answer
    hold.cli("stop", "web")


def test_a_configured_token_takes_along_what_was_made_with_it(hold: NetHold) -> None:
    """When it is exchanged, as when it were revoked."""
    hold.declare(authentication={"enabled": True, "token": SESAME})
    hold.open()
    caller = {"token": SESAME, "door": "rest"}
    made = hold.ask("create_token", token_name="made", role="viewer", caller=caller)["text"]
    assert "web: running" in piped(hold.port, f"token {made}", "status")
    hold.declare(authentication={"enabled": True, "token": SESAME[::-1]})
    hold.cli("reload")
    assert "not known" in piped(hold.port, f"token {made}", "status")


def test_roles_and_scopes_bind(opened: NetHold) -> None:
    """A viewer, and an operator of another service, stop nothing; refusals are on record, a wrong
    token once."""
    viewer = opened.cli("token", "create", "eyes", "--role", "viewer").stdout.strip()
    other = opened.cli("token", "create", "other", "--service", "db").stdout.strip()
    assert "refused" in piped(opened.port, f"token {viewer}", "stop web").splitlines()[1]
    assert "refused" in piped(opened.port, f"token {other}", "stop web").splitlines()[1]
    opened.cli("token", "revoke", "eyes")
    assert "error" in piped(opened.port, f"token {viewer}", "status")
    refusals = [json.loads(line) for line in opened.cli("audit", "--json").stdout.splitlines()]
    refused = [one["actor"] for one in refusals if one["decision"] == "refused"]
    assert refused == ["token eyes", "token other", "somebody unknown"]


def test_commands_of_this_machine_alone_are_not_offered(opened: NetHold) -> None:
    """`up` and `run` bring the caller's environment and folder: not from the network."""
    for line in ('{"command": "run", "argv": ["id"], "working_dir": "/"}', '{"command": "up"}'):
        answer = piped(opened.port, json.dumps({"token": opened.token}), line)
        assert "not offered" in answer.splitlines()[1]


def test_the_door_stays_open_while_the_supervisor_is_dead(opened: NetHold) -> None:
    """A connection made meanwhile waits, and is answered by the next supervisor."""
    pid = opened.supervisor_pid
    kill_9(pid)
    answer = piped(opened.port, f"token {opened.token}", "status")
    assert "web: running" in answer
    assert opened.supervisor_pid != pid


def test_a_port_that_is_taken_is_named_and_left(hold: NetHold) -> None:
    """Services start all the same; a free port would do only if none was configured."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", hold.port))
        stranger.listen()
        hold.declare()
        hold.up()

        def failed() -> list[dict[str, Any]]:
            events = hold.ask("events", limit=1000)["events"]
            return [event for event in events if event["kind"] == "door:failed"]

        wait_for(failed)
        assert f"port {hold.port}" in failed()[0]["data"]["reason"]
        assert hold.service("web")["status"] == "running"
        assert hold.status()["supervisor"]["doors"] == {}


def test_a_line_without_end_is_refused(opened: NetHold) -> None:
    """It is not collected in memory."""
    with Wire(opened.port) as wire:
        try:
            wire.sock.sendall(b"x" * 3_000_000)
        except OSError:
            pass
        try:
            assert "too long" in wire.file.read().decode()
        except ConnectionResetError:
            pass
    assert opened.service("web")["status"] == "running"


def test_a_line_that_cannot_be_understood_holds_up_nobody(opened: NetHold) -> None:
    """Also if it looks like a number or a list: the next line is answered."""
    odd = ("logs web \u00b2", '{"command": "status", "service": "web", "services": 5}')
    answers = piped(opened.port, *odd, "help").splitlines()
    assert answers[0].startswith("error: ")
    assert json.loads(answers[1])["error"]["code"] == "usage"
    assert answers[2].startswith("token TEXT")


def test_a_limited_token_is_not_told_other_names(opened: NetHold) -> None:
    """A name that does not exist is refused as one that is not its own."""
    made = opened.json("token", "create", "ci", "--role", "operator", "--service", "api")
    with Wire(opened.port) as wire:
        wire.send(json.dumps({"token": made["text"]}))
        wire.json()
        for services in (["nobody"], ["web"], ["tag:x"]):
            wire.send(json.dumps({"command": "stop", "services": services}))
            error = wire.json()["error"]
            assert error["code"] == "refused"
            assert "web" not in error["message"] or services == ["web"]


def test_a_limited_token_is_told_nothing_of_other_services(hold: NetHold) -> None:
    """Neither by names nor by numbers; in no answer and in no error."""
    sleeps = {"command": ["sleep", "1000"], "start_seconds": 0}
    hold.write(
        {
            "port": hold.port,
            "services": {"xweb": sleeps, "api": sleeps},
            "groups": {"everything": ["xweb", "api"]},
            "commands": {"xweb-greets": {"command": "echo hello"}},
            "workflows": {"all": {"steps": [{"restart": ["xweb"]}]}},
            "alerts": [{"name": "xweb-chat", "command": ["true"]}],
        }
    )
    hold.open()
    made = hold.json("token", "create", "eyes", "--role", "viewer", "--service", "api,ap?")
    asked: list[dict[str, Any]] = [
        *({"command": name} for name in ("status", "alerts", "workflows", "ports", "metrics")),
        *({"command": name} for name in ("list_sessions", "events", "health_check", "plan")),
        {"command": "logs", "service": "apx"},
        {"command": "status", "services": ["everything"]},
        {"command": "status", "services": ["group:everything"]},
        {"command": "explain", "service": "everything"},
    ]
    with Wire(hold.port) as wire:
        wire.send(json.dumps({"token": made["text"]}))
        wire.json()
        for request in asked:
            wire.send(json.dumps(request))
            answer = wire.line()
            assert "xweb" not in answer, (request, answer)
            if request == {"command": "status"}:
                about = json.loads(answer)["result"]["supervisor"]
                assert about["managed_services"] == 1
                assert "selectors" not in about


def test_a_revoked_token_ends_open_lines(opened: NetHold) -> None:
    """Neither the next command nor the next item of a stream is for who had it."""
    made = opened.json("token", "create", "ci", "--role", "operator")
    with Wire(opened.port) as wire, Wire(opened.port) as stream:
        for one in (wire, stream):
            one.send(f"token {made['text']}")
            assert one.line() == "hello, token ci"
        stream.send('{"command": "events", "follow": true, "limit": 1, "id": 1}')
        assert "item" in stream.json()
        opened.cli("token", "revoke", "ci")
        wire.send("stop web")
        assert wire.line().startswith("error: this token is not known")
        opened.cli("restart", "web", "--no-wait")
        assert stream.json()["error"]["code"] == "unauthorized"
    assert opened.service("web")["status"] == "running"
