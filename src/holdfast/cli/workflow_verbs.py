"""The verbs that run commands and workflows; part of the table in `verbs`."""

from __future__ import annotations

from holdfast.cli.parser.verb import Option, Verb

_COMMANDS = ("cancel_workflow", "events")

WORKFLOW_VERBS = (
    Verb(
        "custom-restart",
        "Run commands, restart a service, run commands",
        "workflows:custom_restart",
        operands="[SERVICE]",
        most=1,
        options=(
            Option("--pre-command", "run before; may be repeated", "COMMAND", "several"),
            Option("--post-command", "run afterwards; may be repeated", "COMMAND", "several"),
            Option("--args", "replace its arguments, until the next start", "WORDS"),
            Option("-e --env", "add to its environment, until the next start", "N=V", "pairs"),
            Option("--timeout", "how long the whole may take", "TIME", "duration"),
            Option("--shell", "the commands are for a shell, where the settings allow it"),
        ),
        commands=("custom_restart", *_COMMANDS),
        about=(
            "A command before that fails ends it, and the service is not touched. A command is\n"
            "one of `commands:` by its name, or words. Ctrl-C ends the command that runs."
        ),
        examples=(
            (
                'holdfast custom-restart web --pre-command "make clean" --post-command "echo done"',
                "clean first, tell afterwards",
            ),
            (
                'holdfast custom-restart web --args "--config production.yaml" --env LOG=info',
                "with other arguments and variables, once",
            ),
        ),
    ),
    Verb(
        "exec",
        "Run one command to its end, and exit as it did",
        "workflows:execute",
        operands="-- COMMAND…",
        least=1,
        most=None,
        options=(
            Option("--timeout", "how long it may take; 10m by default", "TIME", "duration"),
            Option("--type", "make, shell, binary, cargo, npm, python, named …", "TYPE"),
            Option("--service", "where this service runs, with its environment", "NAME"),
        ),
        commands=("execute_command", *_COMMANDS),
        about=(
            "The settings under `commands:` decide what may be run; a shell is off. At its\n"
            "timeout its whole tree is killed. Nothing of it is recorded."
        ),
        examples=(
            ("holdfast exec -- make clean", "in this folder"),
            ("holdfast exec --service web -- ./manage.py migrate", "as the service sees the world"),
            ("holdfast exec migrate", "a command of the configuration"),
        ),
        is_command_line=True,
    ),
    Verb(
        "workflow",
        "Do the steps of a workflow, or list them all",
        "workflows:workflow",
        operands="[run NAME|ls]",
        most=2,
        options=(Option("--cancel", "end what is under way under this id", "ID"),),
        commands=("run_workflow", "workflows", *_COMMANDS),
        examples=(
            ("holdfast workflow run deploy", "step by step, with what each prints"),
            ("holdfast workflow ls", "those of the configuration, and what is under way"),
        ),
    ),
)
