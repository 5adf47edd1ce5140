"""The roots in force, for handlers that work below them."""

from __future__ import annotations

from holdfast.adapters.files.roots import Roots
from holdfast.app.context import Context


async def offered(context: Context) -> Roots:
    """Asked by who begins to work; later on they are made."""
    return await context.files.made_roots()
