"""The verbs about services with instances, for the table of verbs."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

INSTANCE_VERBS = (
    Verb(
        "scale",
        "Run another number of instances of a service",
        "instances:scale",
        operands="SERVICE=N…",
        least=1,
        most=None,
        options=(
            Option("--no-wait", "do not wait until each has stayed up for its start_seconds"),
        ),
        commands=("scale",),
        about=(
            "For services with `instances:` in the configuration. More are started like their\n"
            "siblings; of fewer, those with the highest index are stopped. Holds until the\n"
            "configuration says another number."
        ),
        examples=(
            ("holdfast scale web=4", "web@1 to web@4 run"),
            ("holdfast scale web=2 worker=0", "two services at once"),
        ),
    ),
    Verb(
        "rolling-restart",
        "Restart services one at a time, each when the last is ready",
        "instances:rolling_restart",
        operands="SERVICE…",
        least=1,
        most=None,
        options=(
            Option("--timeout", "how long each may take to be ready; 60s by default", "TIME",
                   "duration"),
        ),
        commands=("rolling_restart",),
        about=(
            "A failure ends it: the rest stays as it is. With `overlap: true` in a service's\n"
            "configuration its new run is started beside the old one, which is stopped when the\n"
            "new one is ready, and goes on if it does not become ready."
        ),
        examples=(
            ("holdfast rolling-restart web", "every instance of web, one after the other"),
            ("holdfast rolling-restart tag:frontend --timeout 2m", "whatever has that tag"),
        ),
    ),
)  # fmt: skip
