"""The certificate of HTTPS: a given one, or one that the gate makes for this machine itself.

A self-made one is made once, readable by its owner alone, and anew before it expires; it is good
for names of this machine only. Whoever connects compares its fingerprint, which `holdfast
status` tells. Files that changed are used for new connections without a restart.
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
_ANYWHERE = ("0.0.0.0", "::", "")


class Certificate(NamedTuple):
    """Its files. `host` is given if it is self-made: where the gate listens."""

    path: str
    key: str
    host: str | None = None

    def ensure(self) -> None:
        """Make it, if it is ours to make and there is none that will do for a while."""
        if self.host is not None and not self._will_do():
            self._write_new(self.host)

    def _will_do(self) -> bool:
        from cryptography import x509

        try:
            with open(self.path, "rb") as file:
                found = x509.load_pem_x509_certificate(file.read())
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.path, self.key)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, x509.ExtensionNotFound):
            return False
        left = found.not_valid_after_utc - dt.datetime.now(dt.timezone.utc)
        return left > RENEWED_BEFORE and set(names) >= set(_names(self.host or ""))

    def _write_new(self, host: str) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Holdfast on this machine")])
        now = dt.datetime.now(dt.timezone.utc)
        made = (
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
        data = made.public_bytes(serialization.Encoding.PEM)
        replace_file(self.path, data, is_synced=False)

    async def keep_current(self, context: ssl.SSLContext) -> None:
        """Renew it in time, and use files that others renewed."""
        used = self._changed()
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            try:
                await asyncio.to_thread(self.ensure)
                if self._changed() != used:
                    used = self._changed()
                    context.load_cert_chain(self.path, self.key)
            except (OSError, ValueError) as error:
                # The one in use goes on; perhaps the other file is about to be written.
                print(f"the certificate is not renewed: {error}", flush=True)  # noqa: T201

    def _changed(self) -> tuple[float, float]:
        try:
            return os.stat(self.path).st_mtime, os.stat(self.key).st_mtime
        except OSError:
            return 0.0, 0.0


def _names(host: str) -> list[x509.GeneralName]:
    """What a self-made one is good for: this machine, and where the gate listens by name."""
    from cryptography import x509

    names: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    if host not in (*_ANYWHERE, *NAMES, *ADDRESSES):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names
