"""The verbs about what is wrong, and why; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

TROUBLE_VERBS = (
    Verb(
        "explain",
        "Say in words why a service is in its state, and what comes next",
        "trouble:explain",
        operands="[SERVICE]",
        most=1,
        options=(
            Option("--environment", "show the environment it is started with, without secrets"),
        ),
        commands=("explain",),
        about=(
            "Tells what happened before, how the last run ended and what that means, its last\n"
            "lines, what changed in the configuration since the last good run, and hints.\n"
            "Without a service: a sentence for every one that is not fine."
        ),
        examples=(
            ("holdfast explain web", "why is it down, and what will happen?"),
            ("holdfast explain", "what is wrong, in a few lines"),
        ),
    ),
    Verb(
        "alerts",
        "Show what is wrong now, and who was told",
        "trouble:alerts",
        operands="[SERVICE…]",
        most=None,
        options=(
            Option("-a --all", "those that are over, too"),
            Option("-n --tail", "with --all: only the newest; 50 by default", "N", "number"),
            Option("--targets", "where alerts are delivered to, and whether they arrive"),
        ),
        commands=("alerts",),
        examples=(
            ("holdfast alerts", "what is wrong now"),
            ("holdfast alerts --all web", "also what was wrong with web"),
            ("holdfast alerts --targets", "does the webhook work?"),
        ),
    ),
)
