"""The verbs about who may pass and who did what; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

SECURITY_VERBS = (
    Verb(
        "token",
        "Make, list or revoke tokens for the network doors",
        "security:token",
        operands="create|ls|revoke [NAME]",
        least=1,
        most=2,
        options=(
            Option("--role", "what it may do", choices=("viewer", "operator", "admin", "agent")),
            Option("--service", "only these services; several with commas", "NAMES"),
            Option("--tag", "only services with these tags", "TAGS"),
            Option("--command", "only these commands", "NAMES"),
            Option("--path", "only these paths", "PATHS"),
            Option("--expires", "for how long it is valid", "DURATION", "duration"),
        ),
        commands=("create_token", "list_tokens", "revoke_token"),
        about=(
            "A token is shown once, when it is made; only its hash is stored. The command line on\n"
            "this machine needs none. The first admin's token lies in `admin.token` in the state\n"
            "folder."
        ),
        examples=(
            ("holdfast token create ci --role operator --expires 30d", "for a month"),
            ("holdfast token create eyes --role viewer --service web,db", "may look at two"),
            ("holdfast token ls", "who has one"),
            ("holdfast token revoke ci", "refused from now on"),
        ),
    ),
    Verb(
        "dashboard",
        "Log a browser in: opens the dashboard, or prints the link",
        "dashboard:dashboard",
        options=(
            Option("--no-open", "print the link instead of opening a browser"),
            Option("--print", "the same"),
            Option("--role", "what it may do", choices=("viewer", "operator", "admin")),
            Option("--expires", "for how long the browser stays logged in", "DURATION", "duration"),
        ),
        commands=("create_login",),
        about=(
            "The link works once, within a minute, and becomes a cookie that only the dashboard's\n"
            "own pages can use. Logins are listed by `holdfast token ls` and revoked like tokens."
        ),
        examples=(
            ("holdfast dashboard", "open it"),
            ("holdfast dashboard --print --role viewer", "a link for somebody who may look"),
        ),
    ),
    Verb(
        "audit",
        "Show who asked what, and what came of it",
        "security:audit",
        options=(
            Option("-f --follow", "go on with new records"),
            Option("--verify", "look whether any record was altered, removed or cut off"),
            Option("--since", "only what is newer", "WHEN", "when"),
            Option("--actor", "only of those whose name contains this", "TEXT"),
            Option("--command", "only this command", "NAME"),
            Option("-n --tail", "how many of the newest", "N", "number"),
        ),
        commands=("audit",),
        about=(
            "Changes, refusals and reads of output are on record: who, through which door, with\n"
            "which arguments (secrets masked), allowed or refused and why, and how it ended.\n"
            "With --verify the exit code is 1 if the record is not whole."
        ),
        examples=(
            ("holdfast audit --since 1h", "the last hour"),
            ("holdfast audit --verify", "is anything missing?"),
            ("holdfast audit -f --json", "for another program"),
        ),
    ),
)
