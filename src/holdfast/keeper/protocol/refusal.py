"""How the keeper says no: with a code that programs can act on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Refusal(Exception):
    """A request that cannot be done, with a code that programs can act on."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.facts = {"code": code, "message": message, **more}
