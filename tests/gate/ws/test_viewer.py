"""`/ws`: output by cursor, over every death; slow viewers; terminals and their one keyboard."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.gate.conftest import Gate
from tests.gate.ws.client import Ws, content
from tests.harness import Hold, kill_9, program, wait_for

HEAD = struct.Struct(">BIQ")


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(story(), 60)

    asyncio.run(bounded())


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        yield made


@pytest.fixture
def up(hold: Hold) -> Iterator[Callable[..., Gate]]:
    """Starts the services and a gate."""
    gates: list[Gate] = []

    def start(**services: Any) -> Gate:
        hold.services(**services)
        hold.up()
        gates.append(Gate(hold))
        return gates[0]

    yield start
    for gate in gates:
        gate.close()


def counting(hold: Hold, lines: int, interval: float, *more: str) -> list[str]:
    return program("count.py", hold.folder / "truth", lines, interval, 0, *more)


def split(frames: list[dict[str, Any]]) -> dict[str, bytes]:
    """What of which stream was told."""
    told = {"stdout": b"", "stderr": b""}
    for frame in frames:
        told[frame["data"]["stream"]] += content(frame)
    return told


def truth(hold: Hold) -> dict[str, bytes]:
    lines = (hold.folder / "truth").read_bytes().splitlines(keepends=True)
    errors = [line for line in lines if int(line.split()[1]) % 3 == 0]
    return {"stdout": b"".join(it for it in lines if it not in errors), "stderr": b"".join(errors)}


def test_output_goes_on_over_reconnects_and_deaths(hold: Hold, up: Callable[..., Gate]) -> None:
    """By the last cursor: no gap, no duplicate, and the process does not notice; the viewer
    leaves and comes back, the supervisor is killed, the gate is killed."""
    enough = hold.folder / "enough"
    command = counting(hold, 30_000, 0.002, "err", str(enough))
    gate = up(web={"command": command, "restart_policy": "never"})
    pid, seen, cursor = hold.service("web")["pid"], list[dict[str, Any]](), "P0"

    async def look(ws: Ws, count: int) -> None:
        nonlocal cursor
        for _ in range(count):
            message = (await ws.event("output"))["data"]
            seen.append(message)
            cursor = message["cursor"]

    async def story() -> None:
        nonlocal cursor
        for _ in range(3):
            ws = await Ws.open(gate)
            await ws.watch("web", cursor=cursor)
            await look(ws, 4)
            await ws.socket.close()
        async with await Ws.open(gate) as ws:
            await ws.watch("web", cursor=cursor)
            await look(ws, 2)
            kill_9(hold.supervisor_pid)
            await look(ws, 20)
            await asyncio.to_thread(gate.kill)
            assert await ws.closed() == 1006
            # What the gate had sent before it died counts, too.
            for frame in ws.kept:
                if isinstance(frame, dict) and frame["event"] == "output":
                    seen.append(frame["data"])
                    cursor = frame["data"]["cursor"]
        await asyncio.to_thread(gate.replace)
        async with await Ws.open(gate) as ws:
            await ws.watch("web", cursor=cursor)
            enough.touch()
            while True:
                frame = await ws.frame(lambda it: it["event"] in ("output", "status"))
                if frame["event"] == "output":
                    seen.append(frame["data"])
                elif frame["data"]["data"]["state"] == "completed":
                    assert frame["data"]["data"]["exitCode"] == 0
                    return

    assert hold.service("web")["pid"] == pid
    run(story)
    assert split(seen) == truth(hold)
    assert len(hold.ask("runs", service="web")["runs"]) == 1


def test_the_end_of_a_run_comes_after_its_output(hold: Hold, up: Callable[..., Gate]) -> None:
    """Who keeps up has all that was printed before it is told how the run ended."""
    gate = up(
        web={
            "command": ["sh", "-c", "read go; seq 20000; exit 3"],
            "terminal": True,
            "restart_policy": "never",
        }
    )

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            session = (await ws.watch("web"))["sessionId"]
            assert (await ws.event("status"))["data"]["data"] == {
                "state": "running", "status": "running",
            }  # fmt: skip
            await ws.ask("terminal:input", {"sessionId": session, "data": "\n"})
            frames: list[Any] = []
            while not frames or frames[-1].get("data", {}).get("data", {}).get("state") != "failed":
                frames.append(await ws.frame(lambda it: True))
            printed = b"".join(content(it["data"]) for it in frames if it["event"] == "output")
            assert printed.replace(b"\r\n", b"\n").endswith(b"19999\n20000\n")
            ended = frames[-1]["data"]["data"]
            assert (ended["exitCode"], ended["reason"]) == (3, "exit code 3")

    run(story)


def test_characters_are_not_torn(hold: Hold, up: Callable[..., Gate]) -> None:
    """Text stays text at the ends of blocks; what is no text is base64, byte for byte."""
    text = "zwölf Boxkämpfer jagen Viktor 🦊 quer über den großen Sylter Deich\n" * 3000
    (hold.folder / "text").write_text(text, encoding="utf-8")
    (hold.folder / "bytes").write_bytes(bytes(range(256)) * 500)
    gate = up(
        web=["sh", "-c", f"cat {hold.folder}/text; exec sleep 1000"],
        raw=["sh", "-c", f"cat {hold.folder}/bytes; exec sleep 1000"],
    )
    size = len(text.encode())
    wait_for(lambda: hold.service("web")["log_bytes"] == size)
    wait_for(lambda: hold.service("raw")["log_bytes"] == 128_000)

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            await ws.watch("web", cursor="P0")
            seen = ""
            while len(seen) < len(text):
                message = (await ws.event("output"))["data"]
                assert message["data"]["encoding"] == "utf8"
                seen += message["data"]["content"]
            assert seen == text
            await ws.watch("raw", offset=0)
            raw = b""
            while len(raw) < 128_000:
                raw += content((await ws.event("output"))["data"])
            assert raw == bytes(range(256)) * 500

    run(story)


def test_binary_frames_and_offsets(hold: Hold, up: Callable[..., Gate]) -> None:
    """Kind, number, position, bytes; a viewer comes back with the next position of each stream."""
    gate = up(web={"command": counting(hold, 600, 0.002, "err"), "restart_policy": "never"})
    told = {1: b"", 2: b""}

    async def story() -> None:
        offset: Any = 0
        while sum(map(len, told.values())) < sum(map(len, truth(hold).values())) or (
            hold.service("web")["status"] == "running"
        ):
            async with await Ws.open(gate) as ws:
                created = await ws.watch("web", offset=offset, binary=True)
                places = {1: created["offset"]["stdout"], 2: created["offset"]["stderr"]}
                for _ in range(10):
                    try:
                        data = await ws.frame(lambda it: isinstance(it, bytes), 2)
                    except AssertionError:
                        break
                    kind, number, position = HEAD.unpack_from(data)
                    assert number == created["number"]
                    assert position >= places[kind]
                    told[kind] += data[HEAD.size :]
                    places[kind] = position + len(data) - HEAD.size
                offset = {"stdout": places[1], "stderr": places[2]}

    run(story)
    assert {"stdout": told[1], "stderr": told[2]} == truth(hold)


def test_one_stream_a_time_and_the_last_lines(hold: Hold, up: Callable[..., Gate]) -> None:
    """A viewer chooses the stream and where it begins."""
    gate = up(web=["sh", "-c", "for n in 1 2 3 4; do echo o$n; echo e$n >&2; done; sleep 1000"])
    wait_for(lambda: hold.service("web")["log_bytes"] == 24)

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            await ws.watch("web", stream="stderr")
            assert (await ws.output_until(b"e4\n"))[0] == b"e1\ne2\ne3\ne4\n"
            await ws.watch("web", tail=2, stream="stdout")
            assert (await ws.output_until(b"o4\n"))[0] == b"o3\no4\n"
            await ws.watch("web", since=0)
            assert b"o1\n" in (await ws.output_until(b"o1\n"))[0]

    run(story)


def test_nothing_comes_unacknowledged(hold: Hold, up: Callable[..., Gate]) -> None:
    """Beyond `bufferSize` a viewer gets no more before it says what it has; nothing is lost."""
    size = 400_000
    gate = up(web=["sh", "-c", f"yes | head -c {size}; exec sleep 1000"])
    wait_for(lambda: hold.service("web")["log_bytes"] == size)

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            created = await ws.watch("web", cursor="P0", bufferSize=65536)
            assert created["bufferSize"] == 65536
            got = 0
            while got + 32768 <= 65536:
                got += (await ws.event("output"))["data"]["bytes"]
            with pytest.raises(AssertionError):
                await ws.event("output", 0.5)
            assert got <= 65536
            # Another one is not held up by it.
            async with await Ws.open(gate) as other:
                await other.watch("web", cursor="P0")
                seen = 0
                while seen < size:
                    seen += (await other.event("output"))["data"]["bytes"]
            named = {"sessionId": created["sessionId"]}
            await ws.send("ack", {**named, "bytes": got})
            while got < size:
                count = (await ws.event("output"))["data"]["bytes"]
                await ws.send("ack", {**named, "bytes": count})
                got += count
            assert got == size

    run(story)


@pytest.mark.parametrize("slow", ["skip", "lag"])
def test_a_slow_viewer_skips_or_lags(hold: Hold, up: Callable[..., Gate], slow: str) -> None:
    """As it chose; what was skipped is told to the byte."""
    size = 3_000_000
    code = f"read go; yes | head -c {size}; echo; echo last; exec cat"
    gate = up(web={"command": ["sh", "-c", code], "stdin": "pipe"})

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            created = await ws.watch("web", tail=0, slow=slow, bufferSize=4096, flushInterval=1)
            named = {"sessionId": created["sessionId"]}
            other = await Ws.open(gate)
            seeing = await other.watch("web", tail=0, slow=slow)
            await other.ask("terminal:input", {"sessionId": seeing["sessionId"], "data": "go\n"})
            await other.output_until(b"last\n", 30)
            await ws.ask("ping")
            got = sum(it["data"]["bytes"] for it in ws.kept if isinstance(it, dict)
                      and it["event"] == "output")  # fmt: skip
            assert 0 < got <= created["bufferSize"] == 65536
            total, skipped, last = 0, 0, b""
            while not last.endswith(b"last\n"):
                frame = await ws.frame(lambda it: it["event"] in ("output", "output:gap"))
                data = frame["data"]
                if frame["event"] == "output:gap":
                    assert data["reason"] == "slow"
                    skipped += data["bytes"]
                else:
                    last = (last + content(data))[-20:]
                    total += data["bytes"]
                    await ws.send("ack", {**named, "bytes": data["bytes"]})
            assert total + skipped == size + len("\nlast\n")
            assert (skipped > 1_000_000) is (slow == "skip")
            await other.socket.close()

    run(story)


def test_a_size_at_creation(hold: Hold, up: Callable[..., Gate]) -> None:
    """The first viewer sets `cols` and `rows`; later ones are told them, and change nothing."""
    code = "while read word; do stty size; done"
    gate = up(sh={"command": ["sh", "-c", code], "terminal": True})

    async def story() -> None:
        async with await Ws.open(gate) as one, await Ws.open(gate) as two:
            first = await one.watch("sh", cols=132, rows=43)
            await one.event("terminal:keyboard")
            await one.ask("terminal:input", {"sessionId": first["sessionId"], "data": "x\n"})
            assert b"43 132" in (await one.output_until(b"43 132\r\n"))[0]
            second = await two.watch("sh", cols=10, rows=10)
            assert second["size"] == {"cols": 132, "rows": 43}
            await one.ask("terminal:input", {"sessionId": first["sessionId"], "data": "y\n"})
            assert b"10 10" not in (await two.output_until(b"43 132\r\ny\r\n43 132\r\n"))[0]

    run(story)


def test_one_keyboard(hold: Hold, up: Callable[..., Gate]) -> None:
    """The first who asks has it; only it types and sets the size; free when it leaves."""
    code = "while read word; do stty size; echo said $word; done"
    gate = up(sh={"command": ["sh", "-c", code], "terminal": True})

    async def story() -> None:
        one, two = await Ws.open(gate), await Ws.open(gate)
        first = {"sessionId": (await one.watch("sh"))["sessionId"]}
        second = {"sessionId": (await two.watch("sh"))["sessionId"]}
        answer = await one.ask("terminal:take", {**first, "cols": 132, "rows": 43})
        assert answer["event"] == "terminal:taken", answer
        assert (await one.event("terminal:keyboard"))["data"] == {
            **first,
            "mine": True,
            "held": True,
        }
        assert (await two.event("terminal:keyboard"))["data"] == {
            **second,
            "mine": False,
            "held": True,
        }
        for event, data in (
            ("terminal:input", {"data": "no\n"}),
            ("terminal:resize", {"cols": 10, "rows": 10}),
            ("terminal:take", {}),
        ):
            answer = await two.ask(event, {**second, **data})
            assert "somebody else has the keyboard" in answer["data"]["data"]["message"]
        size = {"cols": 132, "rows": 43}
        assert (await two.event("terminal:size"))["data"] == {**second, **size}
        assert (await two.watch("sh", tail=0))["size"] == size
        await one.ask("terminal:input", {**first, "data": "aGkK", "encoding": "base64"})
        for ws in (one, two):
            seen = (await ws.output_until(b"said hi\r\n"))[0]
            assert b"43 132" in seen
            assert b"said no" not in seen
        await one.socket.close()
        freed = await two.frame(
            lambda it: (
                isinstance(it, dict)
                and it["event"] == "terminal:keyboard"
                and it["data"]["sessionId"] == second["sessionId"]
            )
        )
        assert freed["data"] == {**second, "mine": False, "held": False}
        # Who types when it is free has it.
        created = await two.watch("sh", tail=0, binary=True)
        await two.socket.send(struct.pack(">BI", 16, created["number"]) + b"again\n")
        await two.frame(lambda it: isinstance(it, bytes) and b"said again" in it)
        answer = await two.ask("terminal:take", {**second, "force": True})
        assert answer["event"] == "terminal:taken"
        assert (await two.ask("terminal:release", second))["event"] == "terminal:released"
        await two.socket.close()

    run(story)


def test_metrics_and_the_end_of_a_service(hold: Hold, up: Callable[..., Gate]) -> None:
    """Metrics come by themselves; a session ends with its service."""
    gate = up(web=["sleep", "1000"])

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            created = await ws.watch("web", metrics=1)
            message = (await ws.event("metrics"))["data"]
            assert message["sessionId"] == created["sessionId"]
            assert message["data"]["pid"] == hold.service("web")["pid"]
            await asyncio.to_thread(hold.cli, "remove", "web", "--yes", expect=None)
            if "web" in hold.status()["services"]:
                hold.ask("remove", services=["web"])
            closed = await ws.event("session:closed")
            assert closed["data"]["reason"] == "the service was removed"

    run(story)


def test_input_is_in_order(hold: Hold, up: Callable[..., Gate]) -> None:
    """However quickly it is sent."""
    gate = up(cat={"command": ["cat"], "stdin": "pipe"})

    async def story() -> None:
        async with await Ws.open(gate) as ws:
            named = {"sessionId": (await ws.watch("cat"))["sessionId"]}
            for number in range(200):
                await ws.send("terminal:input", {**named, "data": f"{number}\n"})
            seen = (await ws.output_until(b"199\n"))[0]
            assert seen == b"".join(b"%d\n" % number for number in range(200))

    run(story)


def test_other_requests_do_not_wait_for_a_viewer_who_stalls(
    hold: Hold, up: Callable[..., Gate]
) -> None:
    """A client who reads nothing at all costs nobody else anything."""
    gate = up(web=["sh", "-c", "yes | head -c 20000000; exec sleep 1000"])
    wait_for(lambda: hold.service("web")["log_bytes"] == 20_000_000, 30)

    async def story() -> None:
        stalled = await Ws.open(gate, max_queue=1)
        await stalled.send("session:create", {"service": "web", "cursor": "P0"})
        other = await Ws.open(gate)
        for _ in range(20):
            assert (await other.ask("command:execute", {"command": "status"}))["id"]
        assert await asyncio.to_thread(gate.get, "/api/status")
        await other.socket.close()
        stalled.socket.transport.abort()

    run(story)


def test_nothing_is_left_of_connections(hold: Hold, up: Callable[..., Gate]) -> None:
    """Neither in the gate nor in the supervisor, however they ended."""
    gate = up(web=["sh", "-c", "while :; do echo x; sleep 0.01; done"])

    def descriptors() -> tuple[int, int]:
        pids = gate.process.pid, hold.supervisor_pid
        found = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
        return found[0], found[1]

    async def come_and_go(count: int) -> None:
        for number in range(count):
            ws = await Ws.open(gate)
            await ws.watch("web", cursor="P0", binary=bool(number % 2))
            await ws.watch("web", metrics=1)
            await ws.ask("subscribe", {"since": 0})
            await ws.send("command:execute", {"command": "wait", "service": "web"})
            await ws.event("event")
            if number % 3:
                await ws.socket.close()
            else:
                ws.socket.transport.abort()

    run(lambda: come_and_go(3))
    wait_for(lambda: descriptors() == descriptors())
    before = descriptors()
    run(lambda: come_and_go(15))
    # A thread may be at work, and the supervisor closes what was hung up on in its own time.
    wait_for(lambda: all(now <= then for now, then in zip(descriptors(), before, strict=True)))
