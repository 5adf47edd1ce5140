"""Probes against real sockets: what is a success, what is told, what is never told."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.probes import Finding, http, notify, tcp
from holdfast.vocabulary.specs.probes import HttpTarget, TcpTarget

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


async def plain_search(expression: str, data: bytes) -> bool:
    return expression.encode() in data


def saying(*answers: str) -> Answer:
    """A server that gives these answers in turn, the last one for ever."""
    left = list(answers)

    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        text = left.pop(0) if len(left) > 1 else left[0]
        writer.write(text.replace("\n", "\r\n").encode())

    return answer


def asked(
    answer: Answer, tls: ssl.SSLContext | None = None, timeout: float = 5.0, **fields: Any
) -> tuple[Finding, list[bytes]]:
    """What a probe finds at such a server, and what it sent."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            await answer(head, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def main() -> Finding:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        path = fields.pop("path", "/")
        url = f"{'https' if tls else 'http'}://{fields.pop('at', '127.0.0.1')}:{port}{path}"
        target = HttpTarget(url=url, **fields)
        async with server:
            work = http.check(target, timeout, plain_search)
            return await asyncio.wait_for(work, timeout + 5)

    return asyncio.run(main()), heads


OK = "HTTP/1.1 200 OK\ncontent-length: 5\n\nhello"
FAULT = "HTTP/1.1 500 Oops\ncontent-length: 0\n\n"
MOVED = "HTTP/1.1 302 Found\nlocation: /there\ncontent-length: 0\n\n"


@pytest.mark.parametrize(
    ("answers", "fields", "is_passed", "reason"),
    [
        ([OK], {}, True, "answered 200 OK"),
        ([FAULT], {}, False, "answered 500 Internal Server Error"),
        ([MOVED], {}, True, "answered 302 Found"),
        ([MOVED], {"status": ((200, 200),)}, False, "answered 302 Found"),
        ([MOVED, OK], {"follow": True}, True, "answered 200 OK"),
        ([MOVED, FAULT], {"follow": True}, False, "answered 500 Internal Server Error"),
        ([MOVED], {"follow": True}, False, "redirected more than 5 times"),
        ([FAULT], {"status": ((200, 299), (500, 500))}, True, "answered 500 Internal Server Error"),
        ([OK], {"body": "hell"}, True, "answered 200 OK"),
        ([OK], {"body": "heaven"}, False, 'answered 200 OK, but "heaven" is not in the body'),
        (["HTTP/1.1 200 OK\n\nuntil the end"], {"body": "the end"}, True, "answered 200 OK"),
        (
            ["HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n3\nabc\n2\nde\n0\n\n"],
            {"body": "abcde"},
            True,
            "answered 200 OK",
        ),
        (["HTTP/1.1 100 Continue\n\n" + OK], {}, True, "answered 200 OK"),
    ],
)
def test_http(answers: list[str], fields: dict[str, Any], is_passed: bool, reason: str) -> None:
    """2xx and 3xx are a success unless said otherwise; a 500 never is by itself."""
    finding, _ = asked(saying(*answers), **fields)
    assert (finding.is_passed, finding.reason) == (is_passed, reason)


@pytest.mark.parametrize(
    ("answer", "words"),
    [("", "without an answer"), ("SSH-2.0-OpenSSH\n\n", "HTTP"), ("HTTP/1.1 2", "")],
)
def test_what_is_no_http(answer: str, words: str) -> None:
    """A port that is open and speaks otherwise is no healthy web server."""
    finding, _ = asked(saying(answer))
    assert not finding.is_passed
    assert words in finding.reason


def test_a_server_that_never_answers_is_a_timeout() -> None:
    """It takes the connection and says nothing, or drips: the deadline is for the whole."""

    async def hang(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async def drip(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        for _number in range(200):
            writer.write(b"x: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    for answer in (hang, drip):
        finding, _ = asked(answer, timeout=0.3)
        assert not finding.is_passed
        assert "0.3 s" in finding.reason


def test_an_endless_body_is_not_read() -> None:
    """A status is enough where nobody asks for the body; of a body, only so much is read."""

    async def pour(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    assert asked(pour)[0].is_passed
    finding, _ = asked(pour, body="never")
    assert "is not in the body" in finding.reason


def test_credentials_are_sent_and_never_told() -> None:
    """Neither a password, a header nor a query is in what a check found."""
    fields: dict[str, Any] = {"at": "user:s3cret@127.0.0.1", "headers": {"X-Key": "k3y"}}
    finding, heads = asked(saying(FAULT), path="/p?token=t0k", **fields)
    assert b"authorization: Basic dXNlcjpzM2NyZXQ=" in heads[0].lower().replace(
        b"basic dxnlcjpzm2nyzxq=", b"Basic dXNlcjpzM2NyZXQ="
    )
    assert b"k3y" in heads[0]
    assert b"GET /p?token=t0k HTTP/1.1" in heads[0]
    for secret in ("s3cret", "k3y", "t0k"):
        assert secret not in finding.reason


def test_headers_do_not_follow_to_another_host() -> None:
    """A redirect elsewhere does not get what was meant for us."""
    away = "HTTP/1.1 302 Found\nlocation: http://localhost:{port}/\ncontent-length: 0\n\n"

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        text = OK if b"localhost" in head else away.format(port=port)
        writer.write(text.replace("\n", "\r\n").encode())

    finding, heads = asked(answer, follow=True, headers={"X-Key": "k3y"})
    assert finding.is_passed
    assert [b"k3y" in head for head in heads] == [True, False]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A certificate that nobody has signed."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder: Path = tmp_path_factory.mktemp("tls")
    key, made = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=nobody", "-days", "1", "-keyout", str(key), "-out", str(made)]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(["openssl", "req", "-x509", *kind, *subject], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


@pytest.mark.parametrize(
    ("fields", "is_passed"),
    [({}, True), ({"at": "localhost"}, True), ({"verify": True}, False), ({"verify": False}, True)],
)
def test_https_on_loopback(
    certificate: ssl.SSLContext, fields: dict[str, Any], is_passed: bool
) -> None:
    """This machine is trusted without a valid certificate, unless one is asked for."""
    finding, _ = asked(saying(OK), certificate, **fields)
    assert finding.is_passed is is_passed
    if not is_passed:
        assert "certificate" in finding.reason


def test_tcp() -> None:
    """A port that takes connections passes; one that does not is told with its number."""

    async def main() -> tuple[Finding, Finding]:
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            open_one = await tcp.check(TcpTarget(host="localhost", port=port))
        return open_one, await tcp.check(TcpTarget(host="127.0.0.1", port=port))

    passed, failed = asyncio.run(main())
    assert passed.is_passed
    assert not failed.is_passed
    assert "connection refused" in failed.reason


# What services say


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (b"READY=1", {"is_ready": True}),
        (b"READY=0", {}),
        (b"READY=1\nSTATUS=up and away\nMAINPID=1", {"is_ready": True, "status": "up and away"}),
        (b"RELOADING=1\nMONOTONIC_USEC=12", {"is_ready": False}),
        (b"STOPPING=1", {"is_ready": False, "is_stopping": True}),
        (b"STATUS=", {"status": ""}),
        (b"STATUS=a\x1b[31mb\x00c", {"status": "a [31mb c"}),
        (b"WATCHDOG=1", {"watchdog": True}),
        (b"WATCHDOG=trigger", {"watchdog": False}),
        (b"WATCHDOG_USEC=2500000", {"watchdog_seconds": 2.5}),
        (b"EXTEND_TIMEOUT_USEC=1000000", {"extend_seconds": 1.0}),
        (b"EXTEND_TIMEOUT_USEC=-1\nWATCHDOG_USEC=soon", {}),
        ("EXTEND_TIMEOUT_USEC=²".encode(), {}),
        (b"X_METRIC_jobs=3\nX_METRIC_q.depth=0.5", {"metrics": (("jobs", 3.0), ("q.depth", 0.5))}),
        (b"X_METRIC_bad name=3\nX_METRIC_=1\nX_METRIC_n=nan\nX_METRIC_i=inf\nX_METRIC_t=x", {}),
        (b"X_METRIC_" + b"n" * 65 + b"=1", {}),
        (b"\xff\xfe\n\n=\n", {}),
    ],
)
def test_messages(text: bytes, fields: dict[str, Any]) -> None:
    """Known words are understood, the rest is for others."""
    assert notify.parse(text) == notify.Message(**fields)


def test_messages_are_bounded() -> None:
    """A service cannot fill our memory with what it says."""
    said = notify.parse(b"STATUS=" + b"x" * 8000).status
    assert said is not None
    assert len(said) == notify.STATUS_CHARACTERS
    many = b"\n".join(b"X_METRIC_m%d=1" % number for number in range(500))
    assert len(notify.parse(many).metrics) == notify.METRICS_IN_MESSAGE


def test_a_message_comes_with_its_sender(tmp_path: Path) -> None:
    """Descriptors that come along are closed: a barrier is answered, a store is not filled."""
    import os

    where = notify.address(notify.secret_of(str(tmp_path)), "web")
    with notify.make_socket(where) as sock, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.connect("\0" + where[1:] if where.startswith("@") else where)
        reader, writer = os.pipe()
        socket.send_fds(own, [b"BARRIER=1"], [writer])
        os.close(writer)
        [(data, sender)] = notify.receive(sock)
        assert data == b"BARRIER=1"
        if sender is not None:
            assert sender == notify.Sender(os.getpid(), os.getuid())
        assert os.read(reader, 1) == b"", "the barrier is still up"
        os.close(reader)
        assert notify.receive(sock) == []


def test_the_name_of_a_socket_stays(tmp_path: Path) -> None:
    """A service that outlived everything finds its socket again; nobody can guess it."""
    first = notify.secret_of(str(tmp_path))
    assert first == notify.secret_of(str(tmp_path))
    assert len(first) == 16
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
