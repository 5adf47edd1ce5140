"""Readers of JSON in a given shape, made when they are first used.

To know a shape as large as a service's takes longer than many modules do to load, and a fresh
start has nothing to read yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")


def reader(shape: type[T]) -> Callable[[bytes | str], T]:
    """As `msgspec.json.Decoder(shape).decode`, but later."""
    decode: Callable[[bytes | str], T] | None = None

    def read(text: bytes | str) -> T:
        nonlocal decode
        if decode is None:
            decode = msgspec.json.Decoder(shape).decode
        return decode(text)

    return read
