"""The verbs about what this Holdfast as a whole admits; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

AUTHORITY_VERBS = (
    Verb(
        "mode",
        "Tell the runtime mode, or change it",
        "authority:mode",
        operands="[proxy|advanced]",
        most=1,
        commands=("get_mode", "set_mode"),
        about=(
            "Mode advanced adds policies and approvals, request filtering, emergency lockdown and\n"
            "security metrics. The supervisor is replaced by one of that mode; no service is\n"
            "touched. It holds until `down`; runtime_mode: in the configuration makes it lasting."
        ),
        examples=(
            ("holdfast mode", "which one it is, and what it has loaded"),
            ("holdfast mode advanced", "switch"),
        ),
    ),
    Verb(
        "lockdown",
        "Refuse every change from every door, until unlock",
        "authority:lockdown",
        options=(Option("--reason", "why, for everybody who is refused", "TEXT"),),
        commands=("lockdown",),
        about=(
            "Admins may still stop things. Sessions of assistants end, workflows and what waits\n"
            "for approval are cancelled. What runs goes on. Survives every restart."
        ),
        examples=(('holdfast lockdown --reason "a token leaked"', "stop everybody else"),),
    ),
    Verb(
        "unlock",
        "End a lockdown",
        "authority:unlock",
        commands=("unlock",),
        about="Works also when nothing runs here any more.",
        examples=(("holdfast unlock", "let changes pass again"),),
    ),
    Verb(
        "approvals",
        "List what waits for somebody's approval",
        "authority:approvals",
        commands=("approvals",),
        examples=(("holdfast approvals", "who asks for what, and how long it waits"),),
    ),
    Verb(
        "approve",
        "Let a command be done that waits for approval",
        "authority:approve",
        operands="ID",
        least=1,
        most=1,
        options=(Option("--reason", "for the record", "TEXT"),),
        commands=("approve",),
        examples=(("holdfast approve approval-1f2e3d4c", "yes"),),
    ),
    Verb(
        "reject",
        "Refuse a command that waits for approval",
        "authority:reject",
        operands="ID",
        least=1,
        most=1,
        options=(Option("--reason", "for who asked, and for the record", "TEXT"),),
        commands=("reject",),
        examples=(('holdfast reject approval-1f2e3d4c --reason "not today"', "no"),),
    ),
)
