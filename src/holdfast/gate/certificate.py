"""The certificate of HTTPS: a configured one, or a self-signed one that the gate makes.

A self-signed certificate is readable by its owner alone and valid for names of this machine only.
It is renewed before it expires. `holdfast status` shows its fingerprint, so that clients can
compare it. New connections use changed files without a restart.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import os
import ssl
from typing import TYPE_CHECKING, NamedTuple

from holdfast.system.private_files import replace_file
from holdfast.vocabulary.names import BROWSER_HOST

if TYPE_CHECKING:
    from cryptography import x509

VALID = dt.timedelta(days=90)
RENEWED_BEFORE = dt.timedelta(days=30)
LOOK_AGAIN_SECONDS = 3600.0
NAMES = ("localhost", BROWSER_HOST)
ADDRESSES = ("127.0.0.1", "::1")
_EVERYWHERE = ("0.0.0.0", "::", "")


class Certificate(NamedTuple):
    """Its files. `host` is where the gate listens, if the certificate is self-signed."""

    path: str
    key: str
    host: str | None = None

    def ensure(self) -> None:
        """Make a self-signed certificate if there is none that stays valid for a while."""
        if self.host is not None and not self._is_good():
            self._write_new(self.host)

    def _is_good(self) -> bool:
        from cryptography import x509

        try:
            with open(self.path, "rb") as file:
                certificate = x509.load_pem_x509_certificate(file.read())
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.path, self.key)
            extensions = certificate.extensions
            names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, x509.ExtensionNotFound):
            return False
        left = certificate.not_valid_after_utc - dt.datetime.now(dt.timezone.utc)
        return left > RENEWED_BEFORE and set(names) >= set(_names(self.host or ""))

    def _write_new(self, host: str) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Holdfast on this machine")])
        now = dt.datetime.now(dt.timezone.utc)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + VALID)
            .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        replace_file(self.key, secret, is_synced=False)
        data = certificate.public_bytes(serialization.Encoding.PEM)
        replace_file(self.path, data, is_synced=False)

    async def keep_current(self, context: ssl.SSLContext) -> None:
        """Renew it in time, and load files that other programs renewed."""
        used = self._change_times()
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            try:
                await asyncio.to_thread(self.ensure)
                if self._change_times() != used:
                    used = self._change_times()
                    context.load_cert_chain(self.path, self.key)
            except (OSError, ValueError) as error:
                # Keep the one in use; the other file may be about to be written.
                print(f"the certificate is not renewed: {error}", flush=True)  # noqa: T201

    def _change_times(self) -> tuple[float, float]:
        try:
            return os.stat(self.path).st_mtime, os.stat(self.key).st_mtime
        except OSError:
            return 0.0, 0.0


def _names(host: str) -> list[x509.GeneralName]:
    """Return the names of a self-signed certificate: this machine, and where the gate listens."""
    from cryptography import x509

    names: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    if host not in (*_EVERYWHERE, *NAMES, *ADDRESSES):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names
