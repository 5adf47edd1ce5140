"""What is done while who asked is told of its progress, and how it ends whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from holdfast.vocabulary.command import Result


class Followed(msgspec.Struct, frozen=True):
    """An answer in items, and its end: the audit waits for that, not for the listener."""

    stream: AsyncGenerator[Any, None]
    end: asyncio.Future[Result]
