"""Readers of JSON of a given type, made when they are first used.

To prepare a type as large as a service's takes longer than loading many modules, and a fresh start
has nothing to read yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


def reader(kind: type[T]) -> Callable[[bytes | str], T]:
    """Return `msgspec.json.Decoder(kind).decode`, prepared when it is first called."""
    decode: Callable[[bytes | str], T] | None = None

    def read(text: bytes | str) -> T:
        nonlocal decode
        if decode is None:
            decode = msgspec.json.Decoder(kind).decode
        return decode(text)

    return read
