"""A bounded HTTP client: `python -m bench.load PORT PATH CONNECTIONS SECONDS [TOKEN]`.

So many connections, each of which asks again as soon as it is answered; prints how many answers
came, and how long they took. Every answer must be a 200 with as many bytes as it says.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


class Asking(asyncio.Protocol):
    """One connection."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.buffer = b""
        self.begun = 0.0
        self.latencies: list[float] = []
        self.failed = ""
        self.is_over = False
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_over:
            self.failed = self.failed or f"closed: {error}"

    def ask(self) -> None:
        self.begun = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.failed = head.decode() + rest.decode()
            self.transport.close()
            return
        start = head.lower().index(b"content-length:") + 15
        if len(rest) < int(head[start:].split(b"\r\n", 1)[0]):
            return
        self.latencies.append(time.perf_counter() - self.begun)
        self.buffer = b""
        if not self.is_over:
            self.ask()


async def load(port: int, paths: list[str], count: int, seconds: float, token: str) -> Any:
    loop = asyncio.get_running_loop()
    asking: list[Asking] = []
    for number in range(count):
        request = (
            f"GET {paths[number % len(paths)]} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        ).encode()
        _, one = await loop.create_connection(lambda r=request: Asking(r), "127.0.0.1", port)
        asking.append(one)
    # The first moments are of imports and caches.
    await asyncio.sleep(min(0.5, seconds / 4))
    before, begun = sum(len(one.latencies) for one in asking), time.perf_counter()
    await asyncio.sleep(seconds)
    done = sum(len(one.latencies) for one in asking) - before
    took = time.perf_counter() - begun
    for one in asking:
        one.is_over = True
        one.transport.close()
    if failed := [one.failed for one in asking if one.failed]:
        raise RuntimeError(failed[0])
    latencies = sorted(it for one in asking for it in one.latencies)
    return {
        "requests": len(latencies),
        "per_second": round(done / took, 1),
        "p50_ms": round(1000 * latencies[len(latencies) // 2], 3),
        "p99_ms": round(1000 * latencies[int(len(latencies) * 0.99)], 3),
    }


def main() -> None:
    port, paths, count, seconds = sys.argv[1:5]
    token = sys.argv[5] if len(sys.argv) > 5 else "none"
    asked = load(int(port), paths.split(" "), int(count), float(seconds), token)
    print(json.dumps(asyncio.run(asked)))


if __name__ == "__main__":
    main()
