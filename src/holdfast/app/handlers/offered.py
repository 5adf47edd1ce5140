"""The roots in force, for handlers that work below them."""

from __future__ import annotations

from holdfast.adapters.files.roots import Roots
from holdfast.app.context import Context


def offered(context: Context) -> Roots:
    return context.files.roots
