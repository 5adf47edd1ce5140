"""`/ws`: the output of several services in one session, in one order."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from holdfast.system import deadlines
from tests.gate.conftest import Gate
from tests.gate.ws.client import Ws
from tests.harness import Hold, kill_9, wait_for

RECORD = struct.Struct(">HBBdQI")
OUTPUT, NOTE, EVENT, PLACE = range(4)


class Record(NamedTuple):
    service: int
    kind: int
    stream: int
    time: float
    position: int
    data: bytes

    @property
    def facts(self) -> Any:
        return json.loads(self.data)


def records(frame: bytes) -> list[Record]:
    found, at = [], 5
    while at < len(frame):
        service, kind, stream, time, position, length = RECORD.unpack_from(frame, at)
        at += RECORD.size
        data = frame[at : at + length]
        found.append(Record(service, kind, stream, time, position, data))
        at += length
    return found


class Watching:
    """A session of several services, and what came of it."""

    def __init__(self, ws: Ws, created: dict[str, Any]) -> None:
        self.ws = ws
        self.created = created
        self.seen: list[Record] = []
        self.is_acknowledging = True

    @classmethod
    async def begin(cls, ws: Ws, *services: str, **options: Any) -> Watching:
        answer = await ws.ask("session:create", {"services": services, **options})
        assert answer["event"] == "session:created", answer
        return cls(ws, answer["data"])

    async def more(self) -> None:
        number = self.created["number"]
        frame = await self.ws.frame(
            lambda it: isinstance(it, bytes) and struct.unpack_from(">BI", it) == (3, number)
        )
        if self.is_acknowledging:
            session = self.created["sessionId"]
            await self.ws.send("ack", {"sessionId": session, "bytes": len(frame)})
        self.seen += records(frame)

    async def until(self, wanted: Callable[[], Any]) -> None:
        while not wanted():
            await self.more()

    def output(self, service: int) -> bytes:
        return b"".join(
            one.data for one in self.seen if one.kind == OUTPUT and one.service == service
        )

    def cursors(self) -> dict[str, str]:
        """Where each service is to be read on."""
        names = [one["service"] for one in self.created["services"]]
        places = {one["service"]: one["cursor"] for one in self.created["services"]}
        for one in self.seen:
            if one.kind == PLACE:
                places[names[one.service]] = one.data.decode()
        return places


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await deadlines.wait_for(story(), 90)

    asyncio.run(bounded())


TURNS = """
turn() { while [ "$(cat turn 2>/dev/null)" != "$1" ]; do sleep 0.01; done; }
for n in 1 2 3 4 5; do turn $ME; echo "$ME $n"; sleep 0.02; echo $OTHER > turn; done
exec sleep 1000
"""


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as made:
        folder = str(made.folder)

        def takes_turns(me: str, other: str) -> dict[str, Any]:
            return {
                "command": ["sh", "-c", f"cd {folder}; ME={me}; OTHER={other}; {TURNS}"],
                "start_seconds": 0,
            }

        lines = "for i in $(seq 1 3000); do echo line $i; done; echo done >&2; exec sleep 1000"
        made.services(
            a=takes_turns("a", "b"),
            b=takes_turns("b", "a"),
            many={"command": ["sh", "-c", lines], "start_seconds": 0},
            typed={"command": ["cat"], "stdin": "pipe", "start_seconds": 0},
            flood={"command": ["yes", "x" * 99], "autostart": False, "start_seconds": 0},
        )
        made.up()
        (made.folder / "turn").write_text("a\n")
        yield made


@pytest.fixture(scope="module")
def gate(hold: Hold) -> Iterator[Gate]:
    made = Gate(hold)
    yield made
    made.close()


def test_services_come_in_the_order_in_which_they_printed(hold: Hold, gate: Gate) -> None:
    """Two services print in turns; live and read afterwards, the order is that of the turns, with
    both starts between the lines."""
    wanted = [f"{name} {n}\n".encode() for n in range(1, 6) for name in "ab"]

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            for _ in range(2):
                watching = await Watching.begin(ws, "a", "b", cursors={"a": "P0", "b": "P0"})
                while not watching.output(1).endswith(b"b 5\n"):
                    await watching.more()
                assert [one.data for one in watching.seen if one.kind == OUTPUT] == wanted
                told = [one.facts for one in watching.seen if one.kind == EVENT]
                starts = {one["service"] for one in told if one["kind"] == "process:started"}
                assert starts == {"a", "b"}
                times = [one.time for one in watching.seen if one.kind in (OUTPUT, EVENT)]
                assert times == sorted(times)

    run(story)


def test_history_before_a_place(gate: Gate) -> None:
    """With `until`, the last lines before that place come, and the session ends by itself."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            live = await Watching.begin(ws, "many", tail=10)
            await live.until(lambda: b"done" in live.output(0))
            lines = live.output(0).split(b"\n")
            assert len(lines) == 11, lines
            start = live.created["services"][0]["cursor"]
            older = await Watching.begin(ws, "many", until={"many": start}, tail=200)
            closed = asyncio.create_task(ws.event("session:closed"))
            while not closed.done():
                await asyncio.wait([closed], timeout=0.05)
            assert closed.result()["data"]["reason"] == "end"
            for frame in [one for one in ws.kept if isinstance(one, bytes)]:
                older.seen += records(frame)
            before = older.output(0).decode().split("\n")
            first = int(lines[0].split()[1])
            assert before == [f"line {n}" for n in range(first - 200, first)] + [""]
            everything = {"cursors": {"many": "P0"}, "until": {"many": start}}
            whole = await Watching.begin(ws, "many", **everything)
            await whole.until(lambda: whole.output(0).endswith(f"line {first - 1}\n".encode()))
            assert whole.output(0).startswith(b"line 1\n")

    run(story)


def test_it_goes_on_after_the_gate_died(hold: Hold, gate: Gate) -> None:
    """By the places that came with the output: no gap and no duplicate; an unfinished line comes
    without its end."""

    async def story() -> None:
        hold.ask("send_input", service="typed", data="b25lCg==")
        seen = b""
        async with await Ws.open(gate) as ws:
            watching = await Watching.begin(ws, "typed", "many", cursors={"typed": "P0"}, tail=1)
            await watching.until(lambda: b"one\n" in watching.output(0))
            seen += watching.output(0)
            places = watching.cursors()
        gate.kill()
        gate.replace()
        hold.ask("send_input", service="typed", data="dHdvCg==")
        async with await Ws.open(gate) as ws:
            watching = await Watching.begin(ws, "typed", "many", cursors=places)
            await watching.until(lambda: b"two\n" in watching.output(0))
            seen += watching.output(0)
            assert seen == b"one\ntwo\n"
            supervisor = hold.status()["supervisor"]["pid"]
            kill_9(supervisor)
            hold.ask("send_input", service="typed", data="dGhyZWU=")  # no line end
            await watching.until(lambda: b"three" in watching.output(0))

    run(story)


def test_a_slow_client_is_told_what_it_missed(hold: Hold, gate: Gate) -> None:
    """Without credit nothing is sent; then a gap tells how many bytes are missing and between
    which places, and those can be read."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            watching = await Watching.begin(ws, "flood", slow="skip", bufferSize=256 * 1024, tail=0)
            watching.is_acknowledging = False
            hold.cli("start", "flood")
            await watching.until(lambda: len(watching.output(0)) > 64 * 1024)
            end = wait_for(lambda: _end_beyond(hold, 6_000_000))
            assert end
            watching.is_acknowledging = True
            session = watching.created["sessionId"]
            await ws.send("ack", {"sessionId": session, "bytes": 1 << 30})
            await watching.until(lambda: gaps(watching) and watching.seen[-1].kind == PLACE)
            hold.cli("stop", "flood")
            (gap, *_) = gaps(watching)
            before = sum(
                len(one.data)
                for one in watching.seen[: watching.seen.index(gap)]
                if one.kind == OUTPUT
            )
            span = {"cursors": {"flood": gap.facts["from"]}, "until": {"flood": gap.facts["to"]}}
            missing = await Watching.begin(ws, "flood", **span)
            await missing.until(lambda: len(missing.output(0)) >= gap.facts["bytes"])
            assert len(missing.output(0)) == gap.facts["bytes"]
            behind = watching.seen[watching.seen.index(gap) :]
            following = next(one for one in behind if one.kind == OUTPUT)
            assert following.position == before + gap.facts["bytes"]

    run(story)


def gaps(watching: Watching) -> list[Record]:
    return [one for one in watching.seen if one.kind == NOTE and one.facts["kind"] == "slow"]


def _end_beyond(hold: Hold, size: int) -> bool:
    files = (hold.state / "logs").glob("flood*.out")
    return sum(one.stat().st_size for one in files) > size


def test_what_is_refused(gate: Gate) -> None:
    """No service, an unknown one, a place that is none; and nobody types into many services."""

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            answer = await ws.ask("session:create", {"services": []})
            assert answer["data"]["data"]["code"] == "usage"
            answer = await ws.ask("session:create", {"services": ["nobody"]})
            assert answer["data"]["data"]["code"] == "unknown_service"
            answer = await ws.ask(
                "session:create", {"services": ["many"], "cursors": {"many": "nowhere"}}
            )
            assert answer["data"]["data"]["code"] == "usage"
            watching = await Watching.begin(ws, "many", "typed")
            session = watching.created["sessionId"]
            answer = await ws.ask("terminal:input", {"sessionId": session, "data": "x"})
            assert answer["data"]["data"]["code"] == "usage"
            answer = await ws.ask("session:close", {"sessionId": session})
            assert answer["event"] == "session:closed"

    run(story)
