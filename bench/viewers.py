"""Many viewers of one service over `/ws`: `python -m bench.viewers`.

Every viewer who keeps up must get every byte, once and in order; some stall for the whole time
and must not grow the gate's memory. Bounded to about 20 s of printing.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

from bench.lab import Trial, cpu_seconds, environment, median, program, pss_mib, wait_until
from bench.peers import Holdfast, Service

HEAD = struct.Struct(">BIQ")
LINE_BYTES = len("line 00000000 of what a service says\n")
END = b"the end\n"


class Viewer(asyncio.Protocol):
    """Reads frames with as little work as possible; `is_stalled` stops reading."""

    def __init__(self, token: str, service: str, slow: str) -> None:
        self.token, self.service, self.slow = token, service, slow
        self.buffer = bytearray()
        self.is_open = False
        self.crc = self.bytes = self.frames = self.holes = self.skipped = 0
        self.next: int | None = None
        self.last = b""
        self.delay = 0.0
        self.has_ended = asyncio.get_running_loop().create_future()
        self.is_ready = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        port = transport.get_extra_info("peername")[1]
        transport.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n".encode()
        )

    def tell(self, event: str, data: Any) -> None:
        payload = json.dumps({"event": event, "data": data}).encode()
        size = len(payload)
        head = (
            struct.pack(">BB", 0x81, 0x80 | size)
            if size < 126
            else struct.pack(">BBH", 0x81, 0xFE, size)
        )
        self.transport.write(head + bytes(4) + payload)

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.has_ended, self.is_ready):
            if not future.done():
                future.set_exception(ConnectionError(f"closed: {bytes(self.buffer[:300])!r}"))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.is_open:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            assert b" 101 " in head.split(b"\r\n")[0], head
            self.is_open, self.buffer = True, bytearray(rest)
            wanted = {"service": self.service, "binary": True, "slow": self.slow, "tail": 0}
            self.tell("session:create", wanted)
        place = 0
        while len(self.buffer) - place >= 2:
            size, start = self.buffer[place + 1], place + 2
            if size == 126:
                size, start = int.from_bytes(self.buffer[place + 2 : place + 4], "big"), place + 4
            elif size == 127:
                size, start = int.from_bytes(self.buffer[place + 2 : place + 10], "big"), place + 10
            if len(self.buffer) < start + size:
                break
            self.frame(self.buffer[place] & 15, bytes(self.buffer[start : start + size]))
            place = start + size
        del self.buffer[:place]

    def frame(self, kind: int, data: bytes) -> None:
        if kind == 2:
            self.output(data)
        elif kind == 9:
            self.transport.write(struct.pack(">BB", 0x8A, 0x80 | len(data)) + bytes(4) + data)
        elif kind == 1:
            frame = json.loads(data)
            if frame["event"] == "session:created":
                self.next = frame["data"]["offset"]["stdout"]
                self.is_ready.set_result(None)
            elif frame["event"] == "output:gap":
                self.skipped += frame["data"]["bytes"]
                self.next = frame["data"]["offset"]["stdout"]
            elif frame["event"] == "error":
                self.has_ended.set_exception(RuntimeError(str(frame)))

    def output(self, data: bytes) -> None:
        _, _, offset = HEAD.unpack_from(data)
        content = data[HEAD.size :]
        self.holes += offset != self.next
        self.next = offset + len(content)
        self.crc = zlib.crc32(content, self.crc)
        self.bytes += len(content)
        self.frames += 1
        self.last = (self.last + content)[-len(END) :]
        if self.last == END and not self.has_ended.done():
            self.has_ended.set_result(time.monotonic())


def gate_process(state: Path, **more: str) -> tuple[subprocess.Popen[bytes], int]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1000)
    number = listening.fileno()
    code = f"import os; os.dup2({number}, 3); from holdfast.gate.main import main; main()"
    environ = {**environment(), "HOLDFAST_GATE_LINE": str(state / "run" / "line.sock"), **more}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environ, pass_fds=[number], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    port = listening.getsockname()[1]
    listening.close()
    return process, port


def restarts_ms(peer: Holdfast, count: int = 15) -> list[float]:
    """How long each of some restarts of another service took, as its caller sees it."""
    took = []
    for _ in range(count):
        begun = time.monotonic()
        peer.result("restart", services=["other"])
        took.append(1000 * (time.monotonic() - begun))
        time.sleep(0.05)
    return took


async def look(options: argparse.Namespace, trial: Trial, port: int, gate: int) -> dict[str, Any]:
    peer = trial.peer
    assert isinstance(peer, Holdfast)
    state = peer.state
    token = (state / "admin.token").read_text().strip()
    loop = asyncio.get_running_loop()
    viewers: list[Viewer] = []
    for number in range(options.viewers):
        slow = "skip" if number % 2 else "lag"
        sock = socket.socket()
        if number < options.stalled:
            # Else the kernel alone would take all that is printed.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        _, viewer = await loop.create_connection(partial(Viewer, token, "printer", slow), sock=sock)
        viewers.append(viewer)
    await asyncio.gather(*(viewer.is_ready for viewer in viewers))
    idle, keeping_up = viewers[: options.stalled], viewers[options.stalled :]
    for viewer in idle:
        viewer.transport.pause_reading()
    quiet = await asyncio.to_thread(restarts_ms, peer)
    before, began, cpu = pss_mib([gate]), time.monotonic(), cpu_seconds([gate])
    (trial.work / "go").touch()
    memory = [before]

    async def measure() -> None:
        while True:
            await asyncio.sleep(1.0)
            memory.append(pss_mib([gate]))

    measuring = loop.create_task(measure())
    busy = await asyncio.to_thread(restarts_ms, peer)
    ended = await asyncio.wait_for(
        asyncio.gather(*(viewer.has_ended for viewer in keeping_up)), options.seconds + 60
    )
    seconds = max(ended) - began
    cpu = cpu_seconds([gate]) - cpu
    measuring.cancel()
    for viewer in idle:
        viewer.transport.resume_reading()
    await asyncio.wait_for(asyncio.gather(*(viewer.has_ended for viewer in idle)), 60)
    printed = max(viewer.bytes for viewer in keeping_up)

    def is_whole(viewer: Viewer) -> bool:
        return viewer.bytes == printed and not viewer.holes and viewer.crc == keeping_up[0].crc

    def is_told(viewer: Viewer) -> bool:
        return viewer.bytes + viewer.skipped == printed and not viewer.holes

    lagging, skipping = [v for v in idle if v.slow == "lag"], [v for v in idle if v.slow == "skip"]
    return {
        "viewers": options.viewers,
        "lines_per_second": options.rate,
        "printed_bytes": printed,
        "expected_bytes_about": int(options.seconds * options.rate) * LINE_BYTES,
        "seconds": round(seconds, 2),
        "kept_up": len(keeping_up),
        "whole": sum(map(is_whole, keeping_up)),
        "frames_per_viewer": round(sum(v.frames for v in keeping_up) / len(keeping_up)),
        "sent_mb_per_second": round(sum(v.bytes for v in viewers) / seconds / 1e6, 1),
        "gate_cpu_seconds": round(cpu, 2),
        "gate_pss_mib": [round(value, 1) for value in memory],
        "stalled_lag_whole": f"{sum(map(is_whole, lagging))} of {len(lagging)}",
        "stalled_skip_told": f"{sum(map(is_told, skipping))} of {len(skipping)}",
        "skipped_bytes": max((v.skipped for v in skipping), default=0),
        "restart_ms_quiet": round(median(quiet), 1),
        "restart_ms_with_viewers": round(median(busy), 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.viewers", description=__doc__)
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--stalled", type=int, default=20)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    options.seconds = min(options.seconds, 20.0)
    with Trial(Holdfast) as trial:
        argv = program("lines.py", trial.work / "go", options.rate, options.seconds)
        other = Service("other", ["sleep", "1000"])
        trial.up([Service("printer", argv), other], reports=0)
        peer = trial.peer
        assert isinstance(peer, Holdfast)
        wait_until(lambda: (peer.state / "admin.token").exists(), 20, "the token")
        process, port = gate_process(peer.state)
        try:
            found = asyncio.run(look(options, trial, port, process.pid))
        finally:
            process.kill()
            process.wait()
    print(json.dumps(found, indent=1))
    is_whole = found["whole"] == found["kept_up"]
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
