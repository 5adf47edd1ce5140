"""What a call of another MCP server costs through Holdfast: `scripts/bench gateway`.

The same server, which does nothing, is called directly, through Holdfast, and through FastMCP's
proxy and mcp-proxy, in turn in one run: the peers only where an environment in
`.scratch/bench-gateway` has them. `--tools FOLDER` scores the search on a labelled set, which is no
part of this tree: `tools.json` has the definitions, `tool_search_dev.json` the requests. Prints a
table; nothing is written.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.assistants import Line
from bench.lab import Trial, wait_until
from bench.peers import ROOT, Holdfast

CALLS = 150
WARM_UP = 10
AT_ONCE = 8
SERVER = ROOT / "tests" / "programs" / "mcp_server.py"
PEERS = ROOT / ".scratch" / "bench-gateway"
FASTMCP = "from fastmcp.server import create_proxy; import sys; create_proxy(sys.argv[1]).run()"
ACCEPT = "application/json, text/event-stream"
RECALL_AT = (1, 10)
Call = Callable[[], float]


class Gateway(Holdfast):
    """With the one server."""

    def configure(self, services: list[Any], tune: Any = None) -> None:
        server = {"command": [sys.executable, str(SERVER)], "concurrency": 64}
        config = {"services": {}, "mcp_servers": {"counter": server}}
        (self.work / "holdfast.json").write_text(json.dumps(config))

    def servers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.result("mcp_servers")["servers"]
        return found

    def result(self, command: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.ask(command))["result"]
        return told


class HttpLine:
    """One client of one server over HTTP."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._path, self._headers = path, headers
        self._last = 0
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        self._ask("initialize", params)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> float:
        began = time.perf_counter()
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{tool}: {answer}")
        return (time.perf_counter() - began) * 1000

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        text = self._post({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        data = [line[5:] for line in text.splitlines() if line.startswith("data:")]
        told: dict[str, Any] = json.loads(next(filter(str.strip, reversed(data)), text))
        return told

    def _post(self, message: dict[str, Any]) -> str:
        headers = {"content-type": "application/json", "accept": ACCEPT, **self._headers}
        self._connection.request("POST", self._path, json.dumps(message), headers)
        answer = self._connection.getresponse()
        if (session := answer.headers.get("mcp-session-id")) is not None:
            self._headers = {**self._headers, "mcp-session-id": session}
        text = answer.read().decode()
        if answer.status >= 400:
            raise RuntimeError(f"HTTP {answer.status}: {text[:200]}")
        return text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measured(lines: dict[str, tuple[Any, str]]) -> dict[str, list[float]]:
    """Milliseconds of calls, in turn; what starts late is warm by then."""
    found: dict[str, list[float]] = {name: [] for name in lines}
    for number in range(WARM_UP + CALLS):
        for name, (line, tool) in lines.items():
            took = line.call(tool, {})
            if number >= WARM_UP:
                found[name].append(took)
    return found


def per_second(make: Callable[[], Any], tool: str) -> float:
    """Calls a second of several clients at once."""
    lines = [make() for _ in range(AT_ONCE)]

    def calls(line: Any) -> None:
        for _ in range(CALLS // 3):
            line.call(tool, {})

    try:
        for line in lines:
            line.call(tool, {})
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(calls, lines))
        return AT_ONCE * (CALLS // 3) / (time.perf_counter() - began)
    finally:
        for line in lines:
            line.close()


def ways(peer: Gateway, folder: Path) -> dict[str, tuple[Callable[[], Any], str]]:
    """How to make a client of each, and what the tool is called there."""
    command = [sys.executable, str(SERVER)]
    relay = [str(Holdfast.command), "mcp"]
    env = {**peer.env, "HOLDFAST_STATE_DIR": str(folder / "state")}
    port = int(peer.result("status")["supervisor"]["doors"]["http"].rpartition(":")[2])
    token = (folder / "state" / "admin.token").read_text().strip()
    bearer = {"authorization": f"Bearer {token}"}
    found: dict[str, tuple[Callable[[], Any], str]] = {
        "direct": (lambda: Line(command, peer.env, folder), "whoami"),
        "Holdfast, a tool of its own": (lambda: Line(relay, env, folder), "status"),
        "Holdfast": (lambda: Line(relay, env, folder), "counter__whoami"),
        "Holdfast, /mcp/counter": (lambda: HttpLine(port, "/mcp/counter", bearer), "whoami"),
    }
    python = PEERS / "bin" / "python"
    if (PEERS / "bin" / "mcp-proxy").exists():
        proxied = [str(python), "-c", FASTMCP, str(SERVER)]
        found["FastMCP's proxy"] = (lambda: Line(proxied, peer.env, folder), "whoami")
        http_port = free_port()
        proxy = [str(PEERS / "bin" / "mcp-proxy"), "--port", str(http_port), "--", *command]
        peer.popen(proxy)
        wait_until(lambda: _listens(http_port), 60, "mcp-proxy")
        found["mcp-proxy, HTTP"] = (lambda: HttpLine(http_port, "/mcp", {}), "whoami")
    else:
        print(f"no peers: {PEERS} is not there")
    return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def compare() -> None:
    package = str(ROOT / "src" / "holdfast")
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    with Trial(Gateway) as trial:
        peer, folder = trial.peer, trial.work
        peer.env |= {"HOLDFAST_HTTP": "on", "HOLDFAST_HTTP_PORT": "0"}
        peer.configure([])
        peer.start()
        wait_until(peer.answers, 30, "status")
        wait_until(lambda: any(one["tools"] for one in peer.servers()), 60, "its tools")
        made = ways(peer, folder)
        lines = {name: (make(), tool) for name, (make, tool) in made.items()}
        try:
            found = measured(lines)
        finally:
            for line, _ in lines.values():
                line.close()
        rates = {name: per_second(make, tool) for name, (make, tool) in made.items()}
        print(f"{'':30}{'p50 ms':>9}{'min ms':>9}{f'calls/s, {AT_ONCE}':>14}")
        for name, took in found.items():
            p50, least = statistics.median(took), min(took)
            print(f"{name:30}{p50:9.2f}{least:9.2f}{rates[name]:14.0f}")
        own = statistics.median(found["Holdfast, a tool of its own"])
        added = statistics.median(found["Holdfast"]) - own - statistics.median(found["direct"])
        print(f"added over direct and a tool of its own: {added:+.2f} ms (target: at most 0.5)")


def search(folder: Path) -> None:
    """How often the right tool is among the hits, and how long a query takes."""
    from holdfast.rules.mcp_servers.finding import Finder, Searchable

    labelled = json.loads((folder / "tool_search_dev.json").read_text())
    tools = json.loads((folder / labelled["catalogue"]).read_text())["tools"]
    entries = [Searchable.of(f"{one['server']}/{one['name']}", one["server"], one) for one in tools]
    began = time.perf_counter()
    finder = Finder(entries)
    built = (time.perf_counter() - began) * 1000
    every = {f"{one['server']}/{one['name']}" for one in tools}
    print(f"{len(tools)} tools, index in {built:.0f} ms")
    kinds = sorted({str(one["kind"]) for one in labelled["requests"]})
    for kind in kinds:
        requests = [one for one in labelled["requests"] if one["kind"] == kind]
        hits, took = dict.fromkeys(RECALL_AT, 0), []
        for request in requests:
            began = time.perf_counter()
            names = finder.find(str(request["query"]), max(RECALL_AT), every)
            took.append((time.perf_counter() - began) * 1000)
            for rank in RECALL_AT:
                hits[rank] += bool(set(request["tools"]) & set(names[:rank]))
        shares = "  ".join(f"R@{rank} {hits[rank] / len(requests):.2f}" for rank in RECALL_AT)
        print(f"{kind}: {shares}  p50 {statistics.median(took):.2f} ms  n {len(requests)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, help="a folder with a labelled set")
    parser.add_argument("--only-search", action="store_true")
    options = parser.parse_args()
    if not options.only_search:
        compare()
    if options.tools is not None:
        search(options.tools)


if __name__ == "__main__":
    main()
