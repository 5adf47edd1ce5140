"""The certificate that the gate makes: for this machine, its owner's alone, renewed in time."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from holdfast.adapters import http_client
from holdfast.gate import certificate as made_by_gate
from holdfast.gate.certificate import Certificate


def certificate_in(folder: Path, host: str = "127.0.0.1") -> Certificate:
    return Certificate(str(folder / "gate.crt"), str(folder / "gate.key"), host)


def read(certificate: Certificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(Path(certificate.path).read_bytes())


def test_it_is_made_once_for_this_machine(tmp_path: Path) -> None:
    """Names of this machine and no others; nobody else can read it."""
    certificate = certificate_in(tmp_path)
    certificate.ensure()
    first = read(certificate)
    names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "holdfast.localhost"]
    assert [str(it) for it in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert {oct(os.stat(it).st_mode & 0o777) for it in tmp_path.iterdir()} == {"0o600"}
    assert len(list(tmp_path.iterdir())) == 2
    certificate.ensure()
    assert read(certificate).serial_number == first.serial_number


@pytest.mark.parametrize("damage", ["old", "torn", "other key", "other host"])
def test_it_is_made_anew_when_it_will_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """About to expire, unreadable, not of its key, or not for where the gate listens."""
    certificate = certificate_in(tmp_path)
    with monkeypatch.context() as patch:
        if damage == "old":
            patch.setattr(made_by_gate, "VALID", dt.timedelta(days=29))
        certificate.ensure()
    first = read(certificate).serial_number
    if damage == "torn":
        Path(certificate.path).write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    if damage == "other key":
        (tmp_path / "other").mkdir()
        other = certificate_in(tmp_path / "other")
        other.ensure()
        os.replace(other.key, certificate.key)
    if damage == "other host":
        certificate = certificate_in(tmp_path, "192.0.2.7")
    certificate.ensure()
    assert read(certificate).serial_number != first
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate.path, certificate.key)


def test_a_given_one_is_never_touched(tmp_path: Path) -> None:
    """Also if it is missing: that is not ours to mend."""
    Certificate(str(tmp_path / "a.crt"), str(tmp_path / "a.key")).ensure()
    assert list(tmp_path.iterdir()) == []


def test_our_check_trusts_our_own_certificate_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a renewed one is shown without a restart."""
    ours = certificate_in(tmp_path)
    other = Certificate(str(tmp_path / "other.crt"), str(tmp_path / "other.key"), "x")
    for one in (ours, other):
        one.ensure()
    monkeypatch.setattr(made_by_gate, "LOOK_AGAIN_SECONDS", 0.01)

    async def story() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(other.path, other.key)
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"
        with pytest.raises(http_client.HttpError, match="certificate"):
            await http_client.request(url, only=ours.path)
        renewing = asyncio.ensure_future(ours.keep_current(context))
        await asyncio.sleep(0)
        ours._write_new("127.0.0.1")
        while True:
            try:
                assert (await http_client.request(url, only=ours.path)).status == 200
                break
            except http_client.HttpError:
                await asyncio.sleep(0.01)
        renewing.cancel()
        server.close()

    asyncio.run(asyncio.wait_for(story(), 60))


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()
