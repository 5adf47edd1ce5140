"""Which versions of CLI and daemon may speak to each other: one minor version apart.

Decides only; says the command that brings them together.
"""

from __future__ import annotations

from holdfast.vocabulary.errors import Refused


def check_versions(ours: str, theirs: str) -> None:
    """Raise Refused when the daemon is too far from this CLI."""
    mine, other = _numbers(ours), _numbers(theirs)
    if mine is None or other is None or mine == other:
        return
    if mine[0] == other[0] and abs(mine[1] - other[1]) <= 1:
        return
    if other > mine:
        hint = (
            "install that version of holdfast, "
            f"or run `holdfast upgrade` to go back to {ours}; no service notices"
        )
    else:
        hint = f"`holdfast upgrade` swaps the daemon for {ours}; no service notices"
    raise Refused(
        f"this is holdfast {ours}, the daemon is {theirs}: too far apart to understand each other",
        hint,
        {"version": ours, "daemon_version": theirs},
    )


def _numbers(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return None
