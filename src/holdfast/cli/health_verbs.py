"""The verb about health, for the table of verbs."""

from __future__ import annotations

from holdfast.cli.parser.verb import Verb

HEALTH_VERBS = (
    Verb(
        "health",
        "Ask the probes of services now",
        "health:health",
        operands="[SERVICE…]",
        most=None,
        commands=("health_check",),
        about=(
            "Nothing of it counts: no service is restarted for it. A service without probes is\n"
            "asked whether it lives. Exit code 1 when a check failed."
        ),
        examples=(
            ("holdfast health", "every probe of every service"),
            ("holdfast health web --json", "with durations, for programs"),
        ),
    ),
)
