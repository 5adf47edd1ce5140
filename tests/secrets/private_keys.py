"""Made-up private keys as programs print them, and a look for pieces of them in what is shown."""

from __future__ import annotations

import base64
import json
import random

PIECE = 8
"""So many characters of a key in a row are too many."""


def body(seed: int, size: int = 600, width: int = 64) -> list[str]:
    """Lines of base64, the last one short."""
    text = base64.b64encode(random.Random(seed).randbytes(size)).decode()
    return [text[at : at + width] for at in range(0, len(text), width)]


def armoured(kind: str, lines: list[str], head: tuple[str, ...] = ()) -> list[str]:
    return [f"-----BEGIN {kind}-----", *head, *lines, f"-----END {kind}-----"]


def _escaped(lines: list[str]) -> list[str]:
    return [json.dumps({"private_key": "\n".join(lines) + "\n", "kind": "account"})]


def _among_others(lines: list[str]) -> list[str]:
    """Another thread prints between the lines."""
    return [one for line in lines for one in (line, "worker 7: one job is done")]


def _in_json(lines: list[str]) -> list[str]:
    return [json.dumps({"level": "info", "message": line, "thread": "main"}) for line in lines]


_PUTTY = ["PuTTY-User-Key-File-3: ssh-rsa", "Encryption: none", "Comment: a", "Public-Lines: 1"]
_ENCRYPTED = ("Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0123456789ABCDEF", "")
_PGP = ("Version: GnuPG v2", "Comment: made up", "")

BODIES = {name: body(seed) for seed, name in enumerate((
    "pkcs8", "rsa", "ec", "dsa", "encrypted", "pgp", "secret", "ssh2", "prefix", "time", "crlf",
    "indented", "colours", "json", "escaped", "others", "unfinished", "list",
))}  # fmt: skip
BODIES |= {"openssh": body(50, width=70), "putty": body(51, 200), "mime": body(52, width=76)}

KEYS: dict[str, list[str]] = {
    "pkcs8": armoured("PRIVATE KEY", BODIES["pkcs8"]),
    "rsa": armoured("RSA PRIVATE KEY", BODIES["rsa"]),
    "ec": armoured("EC PRIVATE KEY", BODIES["ec"]),
    "dsa": armoured("DSA PRIVATE KEY", BODIES["dsa"]),
    "encrypted": armoured("RSA PRIVATE KEY", BODIES["encrypted"], _ENCRYPTED),
    "openssh": armoured("OPENSSH PRIVATE KEY", BODIES["openssh"]),
    "pgp": armoured("PGP PRIVATE KEY BLOCK", [*BODIES["pgp"], "=aB3d"], _PGP),
    "secret": armoured("PGP SECRET KEY BLOCK", BODIES["secret"]),
    "mime": armoured("ENCRYPTED PRIVATE KEY", BODIES["mime"]),
    "ssh2": [
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", *BODIES["ssh2"],
        "---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    ],
    "putty": [*_PUTTY, "AAAAB3NzaC1yc2E=", "Private-Lines: 5", *BODIES["putty"],
              "Private-MAC: " + "0a" * 32],
    "prefix": [f"web | {line}" for line in armoured("PRIVATE KEY", BODIES["prefix"])],
    "time": [f"2026-11-17 18:00:00,123 INFO app.keys {line}"
             for line in armoured("PRIVATE KEY", BODIES["time"])],
    "crlf": [f"{line}\r" for line in armoured("PRIVATE KEY", BODIES["crlf"])],
    "indented": [f"    {line}" for line in armoured("PRIVATE KEY", BODIES["indented"])],
    "colours": [f"\x1b[32m{line}\x1b[0m" for line in armoured("PRIVATE KEY", BODIES["colours"])],
    "json": _in_json(armoured("PRIVATE KEY", BODIES["json"])),
    "escaped": _escaped(armoured("PRIVATE KEY", BODIES["escaped"])),
    "others": _among_others(armoured("PRIVATE KEY", BODIES["others"])),
    "unfinished": armoured("PRIVATE KEY", BODIES["unfinished"])[:-1],
    "list": [f" '{line}'," for line in armoured("PRIVATE KEY", BODIES["list"])],
}  # fmt: skip


def pieces(lines: list[str]) -> set[bytes]:
    """Everything of a key that must not be shown."""
    return {line[at : at + PIECE].encode() for line in lines for at in range(len(line) - PIECE + 1)}


ALL_PIECES = {name: pieces(lines) for name, lines in BODIES.items()}


def told(shown: bytes | str) -> dict[str, str]:
    """Pieces of keys in what is shown, by the name of the key; empty if all is well."""
    data = shown.encode() if isinstance(shown, str) else shown
    grams = {data[at : at + PIECE] for at in range(len(data) - PIECE + 1)}
    found = {name: grams & known for name, known in ALL_PIECES.items()}
    return {name: min(some).decode() for name, some in found.items() if some}
