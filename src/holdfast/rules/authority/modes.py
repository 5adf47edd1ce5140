"""Which runtime mode is in force. Pure."""

from __future__ import annotations

from holdfast.vocabulary.specs.policies import Mode


def effective(*, by_hand: Mode | None, configured: Mode, needs_advanced: bool) -> Mode:
    """What was set by hand goes before the configuration, but policies are never left out:
    a configuration that has some is of mode advanced, whoever says what."""
    if needs_advanced:
        return "advanced"
    return by_hand or configured
