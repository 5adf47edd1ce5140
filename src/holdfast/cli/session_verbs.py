"""The verbs about sessions and ports; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

SESSION_VERBS = (
    Verb(
        "ports",
        "Show which ports are leased, and who holds one",
        "ports:ports",
        operands="[PORT]",
        most=1,
        options=(Option("-a --all", "also those of strangers and of other projects"),),
        commands=("ports",),
        about=(
            "A service with `port: auto` gets a port that is free and that no other Holdfast of\n"
            "yours leases, and keeps it. With a port: who listens there, with pid and command,\n"
            "and the service if it is one."
        ),
        examples=(
            ("holdfast ports", "the ports of this project"),
            ("holdfast ports 3000", "who holds :3000?"),
        ),
    ),
    Verb(
        "sessions",
        "Show which assistants are here, and what runs for them",
        "sessions:sessions",
        operands="[close SESSION]",
        most=2,
        options=(
            Option(
                "--fate",
                "with close: what becomes of what it started",
                choices=("stop", "keep", "hand_over"),
            ),
        ),
        commands=("list_sessions", "close_session"),
        about=(
            "What an assistant starts belongs to its session. When the session ends, each of\n"
            "these services is stopped, kept or handed over to you, as its `on_session_end` or\n"
            "else the session says."
        ),
        examples=(
            ("holdfast sessions", "who is here"),
            ("holdfast sessions close session-… --fate hand_over", "send it away, keep its work"),
        ),
    ),
)
