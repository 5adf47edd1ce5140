"""The journeys that ARCHITECTURE.md tells are the ones that the code makes.

A copy of the package writes down from which file to which its calls go. Each list on the page must
be found in what its process wrote down, in the same order.
"""

from __future__ import annotations

import base64
import json
import mmap
import os
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.chaos.test_replaced import Installed
from tests.harness import quick, read_until, started, wait_for
from tests.project.tree import ROOT, text_of

RECORDER = """
def _record(flag, folder):
    import mmap, os, sys, threading
    with open(flag, "r+b") as file:
        is_on = mmap.mmap(file.fileno(), 1)
    root, last = os.path.dirname(__file__) + os.sep, [None, None]

    def note(frame, event, argument):
        if event != "call" or not is_on[0]:
            return
        name = frame.f_code.co_filename
        if name.startswith(root) and name != last[0]:
            last[0] = name
            if last[1] is None or last[1][0] != os.getpid():
                path = os.path.join(folder, str(os.getpid()))
                how = os.O_CREAT | os.O_WRONLY | os.O_APPEND
                last[1] = (os.getpid(), os.open(path, how, 0o600))
            os.write(last[1][1], name[len(root):].encode() + b"\\n")

    sys.setprofile(note)
    threading.setprofile(note)

_record({flag!r}, {folder!r})
"""


def lists_of(journey: str) -> list[list[str]]:
    """The numbered lists of a journey on the page, in order."""
    section = text_of(ROOT / "ARCHITECTURE.md").partition(f"### {journey}\n")[2]
    section = re.split(r"\n##", section)[0]
    found: list[list[str]] = []
    for number, name in re.findall(r"^(\d+)\. `([^`]+\.py)`", section, re.MULTILINE):
        if number == "1":
            found.append([])
        found[-1].append(name)
    return found


class Recorded(Installed):
    """A Holdfast whose processes write down the way of their calls while a test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = self.folder / "notes"
        self.notes.mkdir()
        flag = self.folder / "flag"
        flag.write_bytes(b"\0")
        with flag.open("r+b") as file:
            self._is_on = mmap.mmap(file.fileno(), 1)
        recorder = RECORDER.format(flag=str(flag), folder=str(self.notes))
        with (self.site / "holdfast" / "__init__.py").open("a") as init:
            init.write(recorder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        del self.environ["HOLDFAST_HTTP"]
        self.write({
            "http_port": self.port,
            "files": {"roots": {"project": {"path": ".", "write": True}}},
            "services": {
                "web": quick(["sh", "-c", "while read x; do echo got $$x; done"], stdin="pipe"),
                "off": quick(autostart=False),
            },
        })  # fmt: skip
        (self.project / "a.txt").write_text("hello\n")
        self.up()
        self.token = self.json("token", "create", "tracer", "--role", "operator")["text"]
        wait_for(lambda: self.get("/api/status"), what="the gate")

    def get(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What the gate answers; None while it is not there."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, head)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except ConnectionError:
            return None

    def ways(self, act: Callable[[], object], is_done: Callable[[], object]) -> list[list[str]]:
        """The way of each process while something is done."""
        for path in self.notes.iterdir():
            os.truncate(path, 0)
        self._is_on[0] = 1
        try:
            act()
            wait_for(is_done)
        finally:
            self._is_on[0] = 0
        return [path.read_text().split() for path in self.notes.iterdir()]


@pytest.fixture(scope="module")
def hold() -> Iterator[Recorded]:
    with Recorded() as one:
        yield one


def check(journey: str, ways: list[list[str]]) -> None:
    told = lists_of(journey)
    assert told, journey
    for names in told:
        best = max((_steps(names, way) for way in ways), default=0)
        assert best == len(names), f"{journey}: not passed in this order: {names[best]}"


def _steps(names: list[str], way: list[str]) -> int:
    """How many of the names the way passes, one after the other."""
    passed = iter(way)
    for number, name in enumerate(names):
        if name not in passed:
            return number
    return len(names)


def test_from_the_verb_to_the_fork(hold: Recorded) -> None:
    """The files between `holdfast start` and the new process."""
    ways = hold.ways(lambda: hold.cli("start", "off"), lambda: hold.service("off")["pid"])
    check("From the verb to the fork", ways)


def test_from_a_byte_to_a_viewer(hold: Recorded) -> None:
    """The files between a service that prints and somebody who follows its log."""
    data = base64.b64encode(b"a line\n").decode()
    with started(hold.command("logs", "-f", "web"), cwd=hold.project, env=hold.environ) as viewer:
        hold.ask("send_input", service="web", data=data)
        read_until(viewer, b"got a line")
        ways = hold.ways(
            lambda: hold.ask("send_input", service="web", data=data),
            lambda: read_until(viewer, b"got a line"),
        )
    check("From a byte to a viewer", ways)


def test_from_an_exit_to_a_restart(hold: Recorded) -> None:
    """The files between the end of a process and its successor."""
    pid = hold.service("web")["pid"]
    ways = hold.ways(
        lambda: os.kill(pid, signal.SIGKILL),
        lambda: hold.service("web")["pid"] not in (pid, None),
    )
    check("From an exit to a restart", ways)


def test_from_an_assistants_edit_to_the_file(hold: Recorded) -> None:
    """The files between a call of the tool `edit` and the file on disk."""
    with started(
        hold.command("mcp"), cwd=hold.project, env=hold.environ, stdin=subprocess.PIPE
    ) as client:
        assert client.stdin is not None

        def say(**message: Any) -> None:
            assert client.stdin is not None
            client.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            client.stdin.flush()

        about = {"capabilities": {}, "clientInfo": {"name": "tracer", "version": "1"}}
        say(id=1, method="initialize", params={"protocolVersion": "2025-06-18", **about})
        read_until(client, b'"id":1')
        say(method="notifications/initialized")
        edit = {"path": "a.txt", "edits": [{"old": "hello", "new": "goodbye"}]}
        ways = hold.ways(
            lambda: say(id=2, method="tools/call", params={"name": "edit", "arguments": edit}),
            lambda: (hold.project / "a.txt").read_text() == "goodbye\n",
        )
        read_until(client, b'"id":2')
    check("From an assistant's edit to the file", ways)


def test_from_a_request_with_a_token_to_the_audit(hold: Recorded) -> None:
    """The files between a request over HTTP and its record."""

    def is_recorded() -> bool:
        records = hold.ask("audit", about="restart", limit=1)["records"]
        return bool(records) and "tracer" in json.dumps(records[-1])

    ways = hold.ways(lambda: hold.get("/api/services/restart", {"services": ["off"]}), is_recorded)
    check("From a request with a token to the audit", ways)
