"""Which runtime mode is in force. Pure."""

from __future__ import annotations

from holdfast.vocabulary.specs.policies import Mode


def effective(*, by_hand: Mode | None, configured: Mode, needs_advanced: bool) -> Mode:
    """Return the mode.

    One set by hand wins over the configuration, but policies are never ignored: a configuration
    that has some means mode advanced.
    """
    if needs_advanced:
        return "advanced"
    return by_hand or configured
