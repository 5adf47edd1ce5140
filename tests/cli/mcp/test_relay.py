"""The relay alone, between a client and gates that die: nothing is lost, nothing asked anew."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from tests.harness import PYTHON

OFFER = {
    "read_only": False,
    "toolsets": ["process", "files"],
    "run": False,
    "send": False,
    "changes_files": True,
}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"x": 1}}


class Doors:
    """A line door that opens sessions, and a gate that is told what to say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sessions = 0
        self.gates: list[Gate] = []
        self.greeted = threading.Event()
        self.connection: socket.socket | None = None
        self.line = self._listening("line.sock")
        self.gate = self._listening("mcp.sock")
        threading.Thread(target=self._open_sessions, daemon=True).start()

    def _listening(self, name: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(str(self.folder / name))
        sock.listen(8)
        sock.settimeout(60)
        return sock

    def _open_sessions(self) -> None:
        while True:
            try:
                connection, _ = self.line.accept()
            except OSError:
                return
            self.connection = connection
            with connection, connection.makefile("rwb") as file:
                for line in file:
                    frame = json.loads(line)
                    if frame["command"] == "hello":
                        result: dict[str, Any] = {"version": __version__, "offer": OFFER}
                    else:
                        self.sessions += 1
                        result = {"token": f"token-{self.sessions}"}
                    said = {"id": frame["id"], "ok": True, "result": result}
                    file.write(json.dumps(said).encode() + b"\n")
                    file.flush()
                    self.greeted.set()

    def hang_up(self) -> None:
        """On who is connected to the line door now."""
        assert self.connection is not None
        self.connection.shutdown(socket.SHUT_RDWR)

    def accept(self, *, is_welcome: bool = True, **more: Any) -> Gate:
        connection, _ = self.gate.accept()
        gate = Gate(connection)
        self.gates.append(gate)
        gate.greeting = gate.hear()
        error = {"error": {"code": "unauthorized", "message": "not known"}}
        gate.say({"ok": True, **more} if is_welcome else error)
        return gate

    def close(self) -> None:
        for gate in self.gates:
            gate.die()
        self.line.close()
        self.gate.close()


class Gate:
    """One connection of the relay."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(60)
        self._connection = connection
        self._file = connection.makefile("rwb")
        self.greeting: dict[str, Any] = {}

    def hear_line(self) -> bytes:
        return self._file.readline()

    def hear(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.hear_line())
        return found

    def say(self, message: dict[str, Any]) -> None:
        # As the gate writes it: id in front, no spaces.
        self.say_bytes(json.dumps(message, separators=(",", ":")).encode())

    def say_bytes(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._file.flush()

    def answer(self, request: dict[str, Any], result: Any = None) -> None:
        self.say({"jsonrpc": "2.0", "id": request["id"], "result": result or {}})

    def die(self) -> None:
        self._file.close()
        self._connection.close()


class Assistant:
    """The client's end of a relay."""

    def __init__(self, doors: Doors) -> None:
        # The relay finds its sockets beside the state folder that it is given.
        environ = {**os.environ, "HOLDFAST_STATE_DIR": str(doors.folder.parent)}
        self.process = subprocess.Popen(
            [PYTHON, "-m", "holdfast", "mcp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ,
        )  # fmt: skip

    def say(self, message: Any) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        return self.process.wait(30)


@pytest.fixture
def doors(short_path: Path) -> Iterator[Doors]:
    folder = short_path / "run"
    folder.mkdir(mode=0o700)
    made = Doors(folder)
    yield made
    made.close()


@pytest.fixture
def assistant(doors: Doors) -> Iterator[Assistant]:
    made = Assistant(doors)
    yield made
    made.process.kill()
    made.process.communicate()


def begin(doors: Doors, assistant: Assistant, **welcome: Any) -> Gate:
    """The handshake, which the relay answers, and the gate, which it then calls up."""
    assistant.say(INITIALIZE)
    assert assistant.hear()["id"] == 1
    assistant.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    gate = doors.accept(**welcome)
    handshake = gate.hear()
    assert handshake["method"] == "initialize"
    assert handshake["params"] == INITIALIZE["params"]
    gate.answer(handshake, {"protocolVersion": "2025-11-25"})
    assert gate.hear()["method"] == "notifications/initialized"
    return gate


def call(number: Any, **more: Any) -> dict[str, Any]:
    params = {"name": "git_change", "arguments": {"op": "commit"}, **more}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def key_of(message: dict[str, Any]) -> str:
    return str(message["params"]["_meta"]["io.holdfast/key"])


def test_a_call_in_flight_is_repeated_under_its_key(doors: Doors, assistant: Assistant) -> None:
    """After the handshake, which the client does not see; the answer comes once."""
    gate = begin(doors, assistant)
    assistant.say(call("a", _meta={"progressToken": 7}))
    first = gate.hear()
    assert first["params"]["_meta"]["progressToken"] == 7
    gate.die()
    gate = doors.accept()
    handshake = gate.hear()
    assert handshake["method"] == "initialize"
    assert handshake["id"] != 1
    gate.answer(handshake, {"protocolVersion": "2025-11-25"})
    assert gate.hear()["method"] == "notifications/initialized"
    second = gate.hear()
    assert second == first
    gate.answer(second, {"content": []})
    assert assistant.hear() == {"jsonrpc": "2.0", "id": "a", "result": {"content": []}}
    assistant.say(call("b"))
    third = gate.hear()
    assert key_of(third) != key_of(first), "another call has another key"
    gate.answer(third)
    assert assistant.hear()["id"] == "b"
    assert doors.sessions == 1
    assert assistant.close() == 0


def test_a_gate_that_dies_while_nothing_is_asked(doors: Doors, assistant: Assistant) -> None:
    """Is noticed at the next request; subscriptions are made again."""
    gate = begin(doors, assistant)
    uri = {"uri": "holdfast://events"}
    assistant.say({"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": uri})
    gate.answer(gate.hear())
    assert assistant.hear()["id"] == 2
    gate.die()
    gate = doors.accept()
    gate.answer(gate.hear())
    assert gate.hear()["method"] == "notifications/initialized"
    again = gate.hear()
    assert again["method"] == "resources/subscribe"
    gate.answer(again)
    gate.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri})
    assert assistant.hear()["method"] == "notifications/resources/updated"


def test_a_stream_is_acknowledged_once(doors: Doors, assistant: Assistant) -> None:
    """Since 2026 there is no handshake; a listen request is one that stays open."""
    assistant.say({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": {}})
    meta = {"io.modelcontextprotocol/subscriptionId": 5}
    ack = {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta},
    }
    changed = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {}}
    gate = doors.accept()
    assert gate.hear()["method"] == "subscriptions/listen"
    gate.say(ack)
    assert assistant.hear() == ack
    gate.die()
    gate = doors.accept()
    assert gate.hear()["method"] == "subscriptions/listen"
    gate.say(ack)
    gate.say(changed)
    assert assistant.hear() == changed


def test_a_session_that_is_over_is_followed_by_another(doors: Doors, assistant: Assistant) -> None:
    """Its token is refused; the client goes on and knows nothing of it."""
    gate = begin(doors, assistant)
    assert gate.greeting["token"] == "token-1"
    gate.die()
    assistant.say(call(3))
    doors.accept(is_welcome=False).die()
    gate = doors.accept()
    assert gate.greeting["token"] == "token-2"
    gate.answer(gate.hear())
    assert gate.hear()["method"] == "notifications/initialized"
    gate.answer(gate.hear())
    assert assistant.hear()["id"] == 3


def test_an_answer_to_a_gate_that_is_gone_is_not_passed_on(
    doors: Doors, assistant: Assistant
) -> None:
    """The next one did not ask; what the client cancelled is not asked again either."""
    gate = begin(doors, assistant)
    assistant.say(call(4))
    gate.hear()
    gate.say({"jsonrpc": "2.0", "id": 99, "method": "elicitation/create", "params": {}})
    assert assistant.hear()["method"] == "elicitation/create"
    assistant.say(call(6))
    gate.hear()
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 4}}
    assistant.say({"jsonrpc": "2.0", **cancelled})
    assert gate.hear()["method"] == "notifications/cancelled"
    gate.die()
    gate = doors.accept()
    gate.answer(gate.hear())
    gate.hear()
    assert gate.hear()["id"] == 6
    assistant.say({"jsonrpc": "2.0", "id": 99, "result": {}})
    assistant.say(call(7))
    assert gate.hear()["id"] == 7


def test_long_lines_and_garbage_pass(doors: Doors, assistant: Assistant) -> None:
    """Megabytes in both directions at once, and what is no JSON is the gate's to refuse."""
    gate = begin(doors, assistant)
    content = "x" * 3_000_000
    thread = threading.Thread(target=assistant.say, args=(call(8, arguments={"c": content}),))
    thread.start()
    heard = gate.hear()
    thread.join()
    answering = threading.Thread(target=gate.answer, args=(heard, {"c": content}))
    answering.start()
    assert assistant.hear()["result"]["c"] == content
    answering.join()
    assistant.say(b"not json")
    assert gate._file.readline() == b"not json\n"


def test_a_line_without_an_end_is_not_kept(doors: Doors, assistant: Assistant) -> None:
    """A client that goes mad does not fill the memory; what it says next is heard."""
    gate = begin(doors, assistant)
    assert assistant.process.stdin is not None
    for _ in range(80):
        assistant.process.stdin.write(b"x" * 1024 * 1024)
    assistant.say(b"")
    assistant.say(call(2))
    assert gate.hear_line().startswith(b"too long")
    assert gate.hear()["id"] == 2
    status = Path(f"/proc/{assistant.process.pid}/status")
    if status.exists():
        peak = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        assert peak is not None
        assert int(peak[1]) < 60_000


def test_a_request_that_gates_die_of_is_given_up(doors: Doors, assistant: Assistant) -> None:
    """So is one that is too long for anybody; the line goes on."""
    gate = begin(doors, assistant)
    assistant.say(call(9))
    for _ in range(5):
        gate.die()
        gate = doors.accept()
        gate.answer(gate.hear())
        gate.hear()
        assert gate.hear()["id"] == 9
    gate.die()
    gate = doors.accept()
    gate.answer(gate.hear())
    gate.hear()
    assert "went away" in assistant.hear()["error"]["message"]
    assistant.say(call(10, arguments={"c": "x" * 9_000_000}))
    assert assistant.hear()["error"]["code"] == -32600
    assistant.say(call(11))
    gate.answer(gate.hear())
    assert assistant.hear()["id"] == 11


def test_what_is_no_proper_message_ends_no_line(doors: Doors, assistant: Assistant) -> None:
    """Odd parameters, endless brackets, half a character, ids that are none."""
    gate = begin(doors, assistant)
    for params in ([1], "x", 5):
        odd = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assistant.say(odd)
        assert gate.hear()["params"] == params
    assistant.say(b"[" * 100_000)
    assert gate._file.readline() == b"[" * 100_000 + b"\n"
    numbers: tuple[Any, ...] = (1.5, True, [1], {})
    for number in numbers:
        assistant.say({"jsonrpc": "2.0", "id": number, "method": "ping"})
        assert assistant.hear()["error"]["code"] == -32600
    assistant.say(call(2, arguments={"message": "half \ud83c of it"}))
    heard = gate.hear()
    assert heard["params"]["arguments"] == {"message": "half \ud83c of it"}
    gate.answer(heard)
    assert assistant.hear()["id"] == 2


def test_ids_of_every_form(doors: Doors, assistant: Assistant) -> None:
    """An answer finds its question, whatever the client calls it."""
    gate = begin(doors, assistant)
    numbers = [0, -7, "", "a,", 'a,"b', "\\", '\\"', '","result":', "é\n", "7"]
    for number in numbers:
        assistant.say({"jsonrpc": "2.0", "id": number, "method": "ping"})
        heard = gate.hear()
        # As the gate writes text: not escaped.
        result = {"jsonrpc": "2.0", "id": heard["id"], "result": {"x": ["a", "error"]}}
        said = json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode()
        gate.say_bytes(said)
        gate.say_bytes(said)  # nobody waits for it any more
    gate.say({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}})
    assert [assistant.hear()["id"] for _ in [*numbers, None]] == [*numbers, None]


def test_a_supervisor_that_left_before_the_first_word(doors: Doors, assistant: Assistant) -> None:
    """The line that was called up in advance is of no use then, and nobody misses it."""
    assert doors.greeted.wait(60)
    doors.hang_up()
    gate = begin(doors, assistant)
    assert gate.greeting["token"] == "token-1"
    assert doors.sessions == 1


def test_who_was_stopped_is_not_waited_for(doors: Doors, assistant: Assistant) -> None:
    """`holdfast down` under a line is told soon, not after all patience."""
    gate = begin(doors, assistant)
    doors.close()
    for name in ("line.sock", "mcp.sock"):
        (doors.folder / name).unlink()
    gate.die()
    began = time.monotonic()
    assistant.say(call(2))
    assert "nothing runs here" in assistant.hear()["result"]["content"][0]["text"]
    assert time.monotonic() - began < 15


def test_a_client_that_leaves_leaves_no_line_behind(doors: Doors, assistant: Assistant) -> None:
    """In the middle of a call and of a word: elsewhere such processes pile up in thousands."""
    gate = begin(doors, assistant)
    assistant.say(call(2))
    assert gate.hear()["id"] == 2
    assert assistant.process.stdin is not None
    assistant.process.stdin.write(b'{"jsonrpc"')
    assert assistant.close() == 0


LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def names(answer: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


def test_the_tools_are_listed_at_once(doors: Doors, assistant: Assistant) -> None:
    """As the supervisor offers them, before any gate is there; no session is opened for that."""
    assistant.say(INITIALIZE)
    assert assistant.hear()["result"]["protocolVersion"] == "2025-11-25"
    assistant.say(LIST)
    listed = names(assistant.hear())
    assert {"status", "control", "write"} <= set(listed)
    assert not {"run", "send", "git", "search"} & set(listed)
    for number, method in enumerate(("prompts/list", "resources/templates/list", "ping"), 3):
        assistant.say({"jsonrpc": "2.0", "id": number, "method": method})
        assert "result" in assistant.hear()
    assert doors.sessions == 0


def test_a_client_is_told_of_other_tools(doors: Doors, assistant: Assistant) -> None:
    """When the gate that follows offers others, as after a reload; it lists them anew."""
    assistant.say(INITIALIZE)
    assistant.hear()
    assistant.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assistant.say(LIST)
    assert "run" not in names(assistant.hear())
    gate = doors.accept(version=__version__, offer=OFFER)
    gate.answer(gate.hear(), {"protocolVersion": "2025-11-25"})
    gate.die()
    gate = doors.accept(version=__version__, offer={**OFFER, "run": True})
    assert assistant.hear()["method"] == "notifications/tools/list_changed"
    gate.answer(gate.hear(), {"protocolVersion": "2025-11-25"})
    assistant.say(LIST)
    assert "run" in names(assistant.hear())


def test_a_gate_of_another_version_lists_its_own_tools(doors: Doors, assistant: Assistant) -> None:
    """After an upgrade under a relay that goes on."""
    gate = begin(doors, assistant, version="0.0.1")
    assistant.say(LIST)
    heard = gate.hear()
    assert heard["method"] == "tools/list"
    gate.answer(heard, {"tools": []})
    assert names(assistant.hear()) == []


def test_a_stream_is_told_of_other_tools(doors: Doors, assistant: Assistant) -> None:
    """Since 2026 such news are on a stream that asked for them."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    wanted = {"toolsListChanged": True}
    assistant.say({**LIST, "params": {"_meta": meta}})
    assert assistant.hear()["result"]["resultType"] == "complete"
    params = {"_meta": meta, "notifications": wanted}
    assistant.say({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params})
    doors.accept(version=__version__, offer={**OFFER, "send": True})
    told = assistant.hear()
    assert told["method"] == "notifications/tools/list_changed"
    assert told["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 5}


def test_a_call_does_not_pay_for_the_way_to_the_gate(doors: Doors, assistant: Assistant) -> None:
    """Its time begins when a gate gets it, and goes on when that gate dies."""
    assistant.say(INITIALIZE)
    assistant.hear()
    assistant.say(call(2))
    asked = time.monotonic()
    time.sleep(0.5)
    gate = doors.accept()
    gate.answer(gate.hear(), {"protocolVersion": "2025-11-25"})
    first = gate.hear()
    assert first["params"]["_meta"]["io.holdfast/began"] > asked + 0.3
    gate.die()
    gate = doors.accept()
    gate.answer(gate.hear(), {"protocolVersion": "2025-11-25"})
    assert gate.hear() == first
