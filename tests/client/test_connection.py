"""A connection to the line door, against a server that speaks its frames."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.client.connection import Connection, ConnectionLost, error_from
from holdfast.client.discovery import check_versions
from holdfast.client.launch import start_keeper
from holdfast.system.places import Places
from holdfast.system.private_files import make_folder
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, Refused, UnknownService

Script = Callable[[socket.socket], None]


@pytest.fixture
def serve(short_path: Path) -> Iterator[Callable[[Script], str]]:
    """Run a script for the first client that connects; answers the socket's path."""
    path = str(short_path / "line.sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    threads: list[threading.Thread] = []

    def begin(script: Script) -> str:
        def run() -> None:
            client, _ = server.accept()
            with client:
                script(client)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return path

    yield begin
    for thread in threads:
        thread.join(30)
    server.close()


def frame(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_an_answer_in_pieces(serve: Callable[[Script], str]) -> None:
    """A frame may arrive in any pieces, and several frames in one."""

    def script(client: socket.socket) -> None:
        asked = json.loads(client.recv(4096))
        assert asked == {"id": 1, "command": "status", "services": ["web"]}
        data = frame(id=1, ok=True, result={"x": "é" * 500})
        for at in range(0, len(data), 7):
            client.sendall(data[at : at + 7])

    connection = Connection(serve(script))
    assert connection.ask("status", services=["web"]) == {"x": "é" * 500}
    connection.close()


def test_errors_are_rebuilt(serve: Callable[[Script], str]) -> None:
    """An error arrives as the class it was, with message, hint and details."""

    def script(client: socket.socket) -> None:
        client.recv(4096)
        error = UnknownService.named("wbe", ["web"]).as_fields()
        client.sendall(frame(id=1, ok=False, error=error))

    connection = Connection(serve(script))
    with pytest.raises(UnknownService, match='did you mean "web"') as caught:
        connection.ask("stop", services=["wbe"])
    assert caught.value.details == {"service": "wbe"}
    connection.close()


def test_a_code_of_a_newer_daemon_is_kept() -> None:
    """An error that this version does not know keeps its code."""
    error = error_from({"code": "brand_new", "message": "m"})
    assert type(error) is HoldfastError
    assert error.as_fields() == {"code": "brand_new", "message": "m", "hint": ""}


def test_streams_and_answers_do_not_mix(serve: Callable[[Script], str]) -> None:
    """Items of a stream that come before another answer are not lost."""

    def script(client: socket.socket) -> None:
        with client.makefile("rb") as lines:
            lines.readline()
            client.sendall(frame(id=1, item={"n": 1}))
            lines.readline()
            client.sendall(frame(id=1, item={"n": 2}) + frame(id=2, ok=True, result={"a": 1}))
            client.sendall(frame(id=1, item={"n": 3}) + frame(id=1, ok=True, result={}))

    connection = Connection(serve(script))
    stream = connection.stream("watch")
    seen = [next(stream)]
    assert connection.ask("status") == {"a": 1}
    seen += stream
    assert seen == [{"n": 1}, {"n": 2}, {"n": 3}]
    connection.close()


def test_a_lost_connection_is_told(serve: Callable[[Script], str]) -> None:
    """A supervisor that dies before it answers is a ConnectionLost, and an OSError too."""
    connection = Connection(serve(lambda client: None))
    with pytest.raises(ConnectionLost) as caught:
        connection.ask("status")
    assert isinstance(caught.value, OSError)
    connection.close()


def test_nobody_there(short_path: Path) -> None:
    """No socket, or one that nobody listens on any more, is NoDaemon."""
    with pytest.raises(NoDaemon):
        Connection(str(short_path / "none"))
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(short_path / "stale"))
    stale.close()
    with pytest.raises(NoDaemon):
        Connection(str(short_path / "stale"))


def test_a_late_answer_is_waited_for_no_longer_than_asked(
    serve: Callable[[Script], str],
) -> None:
    """With a limit the caller is told in time, and the answer can still be had later."""
    go = threading.Event()

    def script(client: socket.socket) -> None:
        client.recv(4096)
        go.wait(30)
        client.sendall(frame(id=1, ok=True, result={"late": True}))

    connection = Connection(serve(script))
    request = connection.send("hello")
    with pytest.raises(TimeoutError):
        connection.answer(request, 0.05)
    assert connection.receive(0.01) is None
    go.set()
    assert connection.answer(request, 5) == {"late": True}
    connection.close()


@pytest.mark.parametrize(
    ("ours", "theirs", "is_near"),
    [
        ("0.1.0", "0.1.9", True),
        ("0.2.0", "0.1.0", True),
        ("0.1.0", "0.2.0", True),
        ("0.3.0", "0.1.0", False),
        ("1.0.0", "0.9.0", False),
        ("0.1.0", "", True),
    ],
)
def test_one_minor_version_apart_works(ours: str, theirs: str, is_near: bool) -> None:
    """Further apart is refused, with the command that fixes it."""
    if is_near:
        check_versions(ours, theirs)
        return
    with pytest.raises(Refused) as caught:
        check_versions(ours, theirs)
    assert "holdfast upgrade" in caught.value.hint


def test_surrogates_do_not_break_the_line(serve: Callable[[Script], str]) -> None:
    """Whatever is in a field, a request is one line of ASCII."""
    seen: list[bytes] = []

    def script(client: socket.socket) -> None:
        seen.append(client.recv(4096))
        client.sendall(frame(id=1, ok=True, result={}))

    connection = Connection(serve(script))
    connection.ask("run", argv=[os.fsdecode(b"\xff"), "a\nb"])
    assert seen[0].count(b"\n") == 1
    assert seen[0].isascii()
    connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as somebody else")
def test_somebody_else_who_listens_is_told_nothing(short_path: Path) -> None:
    """A socket in the place of ours, in a folder that anybody can make, gets no word; the owner
    of the state folder does."""
    path, nobody = str(short_path / "line.sock"), 65534
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.seteuid(nobody)
    try:
        listener.listen()
    finally:
        os.seteuid(0)
    with listener:
        with pytest.raises(Refused, match="belongs to another user"):
            Connection(path)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(1) == b""
        Connection(path, owner=nobody).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_nothing_is_started_where_somebody_else_could_replace_it(short_path: Path) -> None:
    """Who owns the folder above that of the sockets could put other sockets in their place."""
    theirs = short_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, -1)
    state, runtime = short_path / "state", theirs / "sockets"
    places = Places(str(short_path), str(state), str(runtime), None)
    with pytest.raises(Refused, match="theirs belongs to another user"):
        start_keeper(places, dict(os.environ))
    with pytest.raises(PermissionError, match="another user"):
        make_folder(str(runtime))
    places = Places(str(short_path), str(theirs), str(short_path / "sockets"), None)
    with pytest.raises(Refused, match="theirs belongs to another user"):
        start_keeper(places, dict(os.environ))
