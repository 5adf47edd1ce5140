"""The verbs about what services use; a part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

METRIC_VERBS = (
    Verb(
        "metrics",
        "Tell what services use: CPU, memory, files, bytes",
        "metrics:metrics",
        operands="[SERVICE…]",
        most=None,
        options=(
            Option("--history", "what was recorded of this time", "TIME", "duration"),
            Option("--resolution", "seconds of a point: 1, 10 or 60", "N", "number"),
            Option("--extras", "ask what is dear, too: shared memory by part, ports"),
            Option("--format", "table by default", choices=("table", "json", "prometheus")),
        ),
        commands=("metrics",),
        examples=(
            ("holdfast metrics", "each service's whole tree, and all together"),
            ("holdfast metrics web --history 10m", "how it was"),
            ("holdfast metrics --format prometheus", "for a scraper"),
        ),
    ),
    Verb(
        "top",
        "Watch what services use, the busiest first",
        "metrics:top",
        operands="[SERVICE…]",
        most=None,
        options=(
            Option("--interval", "time between two looks; 2s by default", "TIME", "duration"),
            Option("--count", "end after so many looks", "N", "number"),
        ),
        commands=("metrics",),
        examples=(("holdfast top", "until q or Ctrl-C; without a terminal, one table a look"),),
    ),
)
