"""Regular expressions that are compiled when they are first used.

To compile all of them takes several milliseconds of every start, and most are never used in a given
process.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, AnyStr


class _Pattern:
    """Stands for a compiled expression. Each of its methods is looked up once."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        import re

        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but later."""
    return _Pattern(text, flags)  # type: ignore[return-value]
