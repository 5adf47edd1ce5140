"""Many viewers of one long log over `/ws`, beside a bare WebSocket server that sends from memory.

Every viewer gets the whole log, and every byte is counted and compared by its checksum. The client
is the same for both, in a process of its own: `python -m bench.fanout URL-PORT VIEWERS …`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
import subprocess
import sys
import time
import zlib
from functools import partial
from typing import Any

from bench.finding import Finding, interleaved, judged, listed
from bench.gate import gated
from bench.lab import cpu_seconds, environment, median
from bench.peers import ROOT, Service

VIEWERS = 20
LOG_BYTES = 50_000_000
FRAME_BYTES = 64 * 1024
HEAD_BYTES = 13
LINE = b"2026-01-01T00:00:00.000Z INFO request %08d was answered in 12 ms by worker 3\n"

PRINT = f"""
import sys, time
line = {LINE!r}
data = b"".join(line % number for number in range({LOG_BYTES} // len(line % 0)))
sys.stdout.buffer.write(data)
sys.stdout.flush()
time.sleep(100000)
"""

BARE = """
import asyncio, sys
from websockets.asyncio.server import serve
size, frame = int(sys.argv[1]), int(sys.argv[2])
data = bytes(range(256)) * (frame // 256)
async def send(connection):
    await connection.recv()
    left = size
    while left > 0:
        await connection.send(bytes(13) + data[:left])
        left -= len(data)
    await connection.wait_closed()
async def main():
    async with serve(send, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()
asyncio.run(main())
"""


class Reader(asyncio.Protocol):
    """Counts the bytes of binary frames behind their heads, without joining them."""

    def __init__(self, token: str, wanted: int) -> None:
        self.token, self.wanted = token, wanted
        self.head = b""
        self.left = self.skip = self.bytes = self.crc = 0
        self.is_binary = self.is_open = False
        self.ping: bytearray | None = None
        self.is_done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        port = transport.get_extra_info("peername")[1]
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n".encode()
        )

    def begin(self) -> None:
        wanted = {"service": "printer", "binary": True, "slow": "lag", "cursor": "P0"}
        payload = json.dumps({"event": "session:create", "data": wanted}).encode()
        head = struct.pack(">BB", 0x81, 0x80 | len(payload))
        if len(payload) > 125:
            head = struct.pack(">BBH", 0x81, 0xFE, len(payload))
        self.transport.write(head + bytes(4) + payload)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_done.done():
            self.is_done.set_exception(ConnectionError(f"closed after {self.bytes} bytes: {error}"))

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            self.head += data
            _, end, data = self.head.partition(b"\r\n\r\n")
            if not end:
                return
            self.is_open, self.head = True, b""
            self.begin()
        view, place = memoryview(data), 0
        while place < len(data):
            if not self.left:
                place = self._begin_frame(data, place)
                continue
            part = view[place : place + self.left]
            place += len(part)
            self.left -= len(part)
            if self.ping is not None:
                self._pong(bytes(part))
            if self.is_binary:
                passed = min(self.skip, len(part))
                self.skip -= passed
                self.bytes += len(part) - passed
                self.crc = zlib.crc32(part[passed:], self.crc)
        if self.bytes >= self.wanted and not self.is_done.done():
            self.is_done.set_result(time.monotonic())

    def _pong(self, part: bytes) -> None:
        """Answer a ping when all of it is there; it is never longer than 125 bytes."""
        assert self.ping is not None
        self.ping += part
        if not self.left:
            head = bytes((0x8A, 0x80 | len(self.ping)))
            self.transport.write(head + bytes(4) + self.ping)
            self.ping = None

    def _begin_frame(self, data: bytes, place: int) -> int:
        known = len(self.head)
        self.head += data[place : place + 10 - known]
        if len(self.head) < 2:
            return len(data)
        short = self.head[1] & 127
        size = 2 if short < 126 else 4 if short == 126 else 10
        if len(self.head) < size:
            return len(data)
        self.left = short if short < 126 else int.from_bytes(self.head[2:size], "big")
        kind = self.head[0] & 15
        self.is_binary, self.skip = kind == 2, HEAD_BYTES
        self.ping = bytearray() if kind == 9 else None
        self.head = b""
        return place + size - known


async def read_all(port: int, token: str, viewers: int, wanted: int) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    begun = time.monotonic()
    readers = []
    for _ in range(viewers):
        _, reader = await loop.create_connection(partial(Reader, token, wanted), "127.0.0.1", port)
        readers.append(reader)
    ended = await asyncio.wait_for(asyncio.gather(*(one.is_done for one in readers)), 300)
    checksums = {(one.bytes, one.crc) for one in readers}
    for one in readers:
        one.transport.abort()
    size = sum(one.bytes for one in readers)
    return {"mb_per_second": size / (max(ended) - begun) / 1e6, "checksums": sorted(checksums)}


def fan_out(port: int, token: str, pid: int) -> dict[str, Any]:
    argv = [sys.executable, "-m", "bench.fanout", str(port), token, str(VIEWERS), str(WANTED)]
    cpu = cpu_seconds([pid])
    done = subprocess.run(argv, cwd=ROOT, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "cpu_s": cpu_seconds([pid]) - cpu}


WANTED = LOG_BYTES // len(LINE % 0) * len(LINE % 0)


def many_viewers(rounds: int) -> Finding:
    """Twenty viewers of fifty megabytes: how quickly they have them, and what it costs."""
    text = b"".join(LINE % number for number in range(WANTED // len(LINE % 0)))
    expected = [[WANTED, zlib.crc32(text)]]
    argv = [sys.executable, "-c", BARE, str(WANTED), str(FRAME_BYTES)]
    with (
        gated([Service("printer", [sys.executable, "-c", PRINT])]) as (_, port, pid, token),
        subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment()) as bare,
    ):
        assert bare.stdout is not None
        bare_port = int(bare.stdout.readline())
        try:
            results = interleaved(
                max(2, min(rounds, 3)),
                {
                    "bare": lambda: fan_out(bare_port, token, bare.pid),
                    "holdfast": lambda: fan_out(port, token, pid),
                },
            )
        finally:
            bare.kill()
    is_whole = all(run["checksums"] == expected for run in results["holdfast"])
    rates = {name: [run["mb_per_second"] for run in runs] for name, runs in results.items()}
    cpu = {name: median([run["cpu_s"] for run in runs]) for name, runs in results.items()}
    ratio = median(rates["holdfast"]) / median(rates["bare"])
    return Finding(
        f"{VIEWERS} viewers of {LOG_BYTES // 1_000_000} MB over /ws",
        f"bare websockets from memory {median(rates['bare']):.0f} MB/s, {cpu['bare']:.1f} s CPU",
        "–",
        f"{median(rates['holdfast']):.0f} MB/s, {cpu['holdfast']:.1f} s CPU, redacted, "
        + ("nothing lost" if is_whole else "BYTES DIFFER"),
        f"{ratio:.2f} of bare websockets",
        "≥ 0.5 of bare websockets, nothing lost",
        is_whole and judged(ratio >= 0.5, rates["bare"]),
        {name: listed(runs) for name, runs in rates.items()} | {"cpu_s": cpu},
    )


if __name__ == "__main__":
    port, token, viewers, wanted = sys.argv[1:]
    print(json.dumps(asyncio.run(read_all(int(port), token, int(viewers), int(wanted)))))
