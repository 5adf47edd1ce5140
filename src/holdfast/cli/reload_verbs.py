"""The verbs that apply a changed configuration; rows of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

RELOAD_VERBS = (
    Verb(
        "check",
        "Say what is wrong with the configuration; start nothing",
        "check:check",
        about=(
            "Reads it as `holdfast up` would, in this environment: every mistake at once, with\n"
            "file, line and what to write instead. Needs no running Holdfast; exits with 7 if\n"
            "anything is wrong."
        ),
        examples=(
            ("holdfast check", "before a commit, or in CI"),
            ("holdfast check -c staging.yaml --json", "for another program"),
        ),
    ),
    Verb(
        "plan",
        "Show what `holdfast reload` would do",
        "configuration:plan",
        operands="[SERVICE…]",
        most=None,
        options=(Option("--exit-code", "exit with 8 if it would do anything"),),
        commands=("plan",),
        about=(
            "Says which services would be added (+), removed (-), restarted (!) or changed while\n"
            "they run (~), and which fields differ; never values. Nothing is changed."
        ),
        examples=(
            ("holdfast plan", "before `holdfast reload`"),
            ("holdfast plan -c staging.yaml --exit-code", "what another file would change"),
        ),
    ),
    Verb(
        "reload",
        "Apply the changed configuration, and touch nothing else",
        "configuration:reload",
        options=(
            Option("--dry-run", "only show what would be done, as `holdfast plan` does"),
            Option("--delete-logs", "of services that are no longer declared"),
            Option("--no-wait", "do not wait until each has stayed up for its start_seconds"),
        ),
        commands=("reload", "plan"),
        about=(
            "Does what `holdfast plan` says. What is unchanged keeps its process, what was\n"
            "stopped by hand stays stopped, and a file with a mistake in it changes nothing."
        ),
        examples=(
            ("holdfast reload", "after editing holdfast.yaml"),
            ("holdfast reload --dry-run", "look first"),
            ("holdfast reload -c other.yaml", "use another file from now on"),
        ),
    ),
)
