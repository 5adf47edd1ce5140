"""A port that somebody else has: who it is, is told; only an earlier gate of ours gives it back."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.gate.test_kept import HttpHold
from tests.harness import PYTHON, Hold, is_alive, kill_9, read_until, wait_for
from tests.scenarios.test_tcp import free_port

STRANGER = """
import socket, sys
with socket.socket() as sock:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", int(sys.argv[1])))
    sock.listen()
    print("listening", flush=True)
    while True:
        peer, _ = sock.accept()
        peer.recv(1000)
        head = b"HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n"
        peer.sendall(head + sys.argv[2].encode() + b"\\r\\nstranger")
        peer.close()
"""


@contextmanager
def stranger(port: int, header: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A program that has a port, answers HTTP, and must be left alone."""
    argv = [PYTHON, "-c", STRANGER, str(port), f"{header}\r\n" if header else ""]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        read_until(process, b"listening")
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def supervisor(hold: Hold) -> dict[str, Any]:
    found: dict[str, Any] = hold.status()["supervisor"]
    return found


def abandon(hold: HttpHold) -> int:
    """Kill keeper and supervisor; what is left is the gate."""
    hold.http()
    gate = hold.gate_pid()
    pids = hold.keeper_pid, hold.supervisor_pid
    for pid in pids:
        os.kill(pid, 9)
    for pid in pids:
        wait_for(lambda pid=pid: not is_alive(pid))
    return gate


@pytest.fixture
def hold() -> Iterator[HttpHold]:
    with HttpHold() as made:
        yield made


@pytest.mark.unprivileged
def test_a_stranger_is_named_and_left_alone(hold: HttpHold) -> None:
    """Everything else goes on; once the port is free, `up` takes it."""
    with stranger(hold.port) as other:
        hold.open()
        note = supervisor(hold)["door_notes"]["http"]
        assert f"(pid {other.pid})" in note
        assert "python" in note
        assert supervisor(hold)["doors"] == {}
        assert hold.service("web")["status"] == "running"
        assert "http is closed: port" in hold.cli("up", "-d").stderr
        assert f"no http: port {hold.port} is used by" in hold.cli("status").stdout
        assert other.poll() is None
        failed = hold.cli("dashboard", "--print", expect=1)
        assert "there is no HTTP here" in failed.stderr
    note = wait_for(lambda: "is free now" in (s := supervisor(hold)["door_notes"]["http"]) and s)
    assert note.startswith(f"port {hold.port} was used by")
    hold.cli("up", "-d")
    assert supervisor(hold)["doors"] == {"http": f"http://127.0.0.1:{hold.port}"}
    assert "door_notes" not in supervisor(hold)
    assert hold.http()["services"]["web"]["status"] == "running"


def test_who_only_says_to_be_us_gets_nothing_of_worth(hold: HttpHold) -> None:
    """A header is no proof: the token that such a one is sent opens nothing, nor is it moved."""
    with stranger(hold.port) as plain:
        hold.open()
        name = hold.state.name
        assert plain.poll() is None
    with stranger(hold.port, f"X-Holdfast-Instance: {name}") as other:
        hold.cli("up", "-d", timeout=30)
        wait_for(lambda: "an earlier gate" in supervisor(hold)["door_notes"]["http"])
        assert other.poll() is None
        assert supervisor(hold)["doors"] == {}
    assert all(one["kind"] == "token" for one in hold.json("token", "ls")["tokens"])


def test_without_a_configured_port_the_next_free_one_is_taken() -> None:
    """Once and in one line, as nobody asked for that port; why is in the notes of the doors."""
    with Hold(HOLDFAST_HTTP="on") as one, Hold(HOLDFAST_HTTP="on") as two:
        for each in (one, two):
            each.services(web={"command": ["sleep", "1000"], "start_seconds": 0})
            said = each.cli("up", "-d").stderr
        first, second = (supervisor(each)["doors"]["http"] for each in (one, two))
        assert first != second
        if first.endswith(":3001"):  # unless somebody else on this machine had it
            note = supervisor(two)["door_notes"]["http"]
            assert re.match(rf"port 3001 is used by the \w+ of project {one.project} \(pid", note)
            assert note.endswith(f"; using {second.rpartition(':')[2]}")
            assert said.count("\n") == 1
            assert f"http at {second}" in said
            assert two.cli("up", "-d").stderr == ""
            (line,) = [one for one in two.cli("status").stdout.splitlines() if "http" in one]
            assert line == f"http: {second}"
        assert two.ask("hello")["doors"]["http"] == second
        assert supervisor(one)["doors"]["http"] == first


@pytest.mark.unprivileged
@pytest.mark.parametrize("folder", ["project", "café"])
def test_an_earlier_gate_hands_over(folder: str, hold: HttpHold) -> None:
    """Left behind when keeper and supervisor were killed, it gives the port to the next one."""
    hold.project = hold.project.rename(hold.folder / folder)
    hold.open()
    left = abandon(hold)
    assert is_alive(left)
    hold.up()
    assert supervisor(hold)["doors"] == {"http": f"http://127.0.0.1:{hold.port}"}
    assert hold.http()["services"]["web"]["status"] == "running"
    wait_for(lambda: not is_alive(left), what="the earlier gate to end")
    events = hold.ask("events", limit=1000)["events"]
    opened = [e["data"] for e in events if e["kind"] == "door:opened"]
    assert opened[-1].get("handed_over") is True
    assert list(hold.status()["services"]) == ["web"]


def test_an_earlier_gate_that_hangs_or_listens_elsewhere_is_ended(hold: HttpHold) -> None:
    """The keeper knows it by pid, start time and run: it is our own, whatever port it has."""
    hold.open()
    left = abandon(hold)
    os.kill(left, 19)
    hold.port = free_port()
    hold.open()
    assert hold.http()["services"]["web"]["status"] == "running"
    wait_for(lambda: not is_alive(left), what="the earlier gate to end")


def test_the_gate_moves_to_another_port(hold: HttpHold) -> None:
    """A reload that names one is carried out, and the old port is free."""
    hold.open()
    hold.http()
    before, hold.port = hold.port, free_port()
    services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
    hold.write({"http_port": hold.port, "services": services})
    hold.cli("reload")
    assert hold.http()["services"]["web"]["status"] == "running"

    def is_free() -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", before)) != 0

    wait_for(is_free, what="the old port to be given back")


def test_the_control_door_leaves_strangers_alone_too() -> None:
    """Named, and opened by the next `up` once the port is free."""
    port = free_port()
    with Hold(HOLDFAST_TCP="on") as hold:
        hold.write({"port": port, "services": {"web": {"command": "sleep 1000"}}})
        with stranger(port) as other:
            hold.up("--no-wait")
            wait_for(lambda: "tcp" in supervisor(hold).get("door_notes", {}))
            assert f"(pid {other.pid})" in supervisor(hold)["door_notes"]["tcp"]
            assert other.poll() is None
        hold.cli("up", "-d", "--no-wait")
        wait_for(lambda: supervisor(hold)["doors"] == {"tcp": f"127.0.0.1:{port}"})


def test_another_holdfast_is_named_by_its_project() -> None:
    """Not by a command line that tells people nothing."""
    port = free_port()
    with Hold(HOLDFAST_TCP="on") as one, Hold(HOLDFAST_TCP="on") as two:
        for each in (one, two):
            each.write({"port": port, "services": {"web": {"command": "sleep 1000"}}})
            each.up("--no-wait")
        note = wait_for(lambda: supervisor(two).get("door_notes", {}).get("tcp"))
        holder = re.search(r"is used by the (\w+) of project (.+) \(pid (\d+)\)", note)
        assert holder is not None, note
        said = supervisor(one)
        pids = {"keeper": said["keeper_pid"], "supervisor": said["pid"]}
        assert (holder[2], int(holder[3])) == (str(one.project), pids[holder[1]])


def test_without_http() -> None:
    """`--no-http` leaves the gate out, whatever the configuration says."""
    port = free_port()
    with Hold(HOLDFAST_HTTP="on") as hold:
        hold.write({"http_port": port, "services": {"web": {"command": "sleep 1000"}}})
        hold.up("--no-http", "--no-wait")
        assert supervisor(hold)["doors"] == {}
        events = hold.ask("events", limit=1000)["events"]
        assert not [e for e in events if e.get("service") == "holdfast.gate"]


def test_https_with_a_certificate_of_its_own() -> None:
    """Made once, for its owner alone; told by its fingerprint; kept over restarts."""
    with HttpHold() as hold:
        services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
        hold.write({"http_port": hold.port, "tls": "self", "services": services})
        hold.up()
        address = ("127.0.0.1", hold.port)
        wait_for(lambda: (hold.state / "gate.crt").exists(), what="the certificate")
        pem = wait_for(lambda: _shown(address))
        certificate, key = hold.state / "gate.crt", hold.state / "gate.key"
        assert certificate.read_text() == pem
        assert {oct(path.stat().st_mode & 0o777) for path in (certificate, key)} == {"0o600"}
        told = supervisor(hold)
        assert told["doors"]["http"] == f"https://127.0.0.1:{hold.port}"
        assert len(told["fingerprint"]) == 32 * 3 - 1
        assert told["fingerprint"] in hold.cli("status").stdout
        assert told["fingerprint"] in hold.cli("doctor").stdout
        assert told["fingerprint"] in hold.cli("up", "-d").stderr
        context = ssl.create_default_context(cafile=str(certificate))
        for name in ("localhost", "127.0.0.1", "::1", "holdfast.localhost"):
            with socket.create_connection(address, 10) as raw:
                context.wrap_socket(raw, server_hostname=name).close()
        kill_9(hold.gate_pid())
        assert wait_for(lambda: _shown(address)) == pem
        link = hold.json("dashboard")["url"]
        assert link.startswith(f"https://holdfast.localhost:{hold.port}/login#")


def _shown(address: tuple[str, int]) -> str | None:
    try:
        return ssl.get_server_certificate(address, timeout=30)
    except OSError:
        time.sleep(0.02)
        return None


def test_an_earlier_gate_with_https_hands_over() -> None:
    """Only our own certificate is trusted by this check, and it is, on whatever name."""
    with HttpHold() as hold:
        services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
        hold.write({"http_port": hold.port, "tls": True, "services": services})
        hold.up()
        wait_for(lambda: _shown(("127.0.0.1", hold.port)))
        gate = hold.gate_pid()
        for pid in (hold.keeper_pid, hold.supervisor_pid):
            os.kill(pid, 9)
        hold.up()
        events = hold.ask("events", limit=1000)["events"]
        opened = [e["data"] for e in events if e["kind"] == "door:opened"]
        assert opened[-1].get("handed_over") is True, json.dumps(opened)
        wait_for(lambda: not is_alive(gate))
