"""Verbs about Holdfast itself."""

from __future__ import annotations

from holdfast.cli.parser.verb import SERVICES, Option, Verb

CARE_VERBS = (
    Verb(
        "prune",
        "Delete old runs and logs",
        "services:prune",
        operands=SERVICES,
        most=None,
        options=(Option("--older-than", "keep what is newer", "TIME", "duration"),),
        commands=("prune",),
        about="Live runs and their output are never touched; log.total_size bounds them. "
        "Without --older-than, all ended runs go.",
        examples=(("holdfast prune --older-than 7d", "keep a week"),),
    ),
    Verb(
        "upgrade",
        "Swap the running Holdfast for the installed version",
        "upgrade:upgrade",
        commands=("upgrade", "status"),
        about="No service notices: pids, pipes, terminals and exit codes stay.",
        examples=(("holdfast upgrade", "after installing another version"),),
    ),
    Verb(
        "doctor",
        "Check what this host allows, and how to get more",
        "doctor:doctor",
        examples=(("holdfast doctor", "each check: ok, or what is missing and the fix"),),
    ),
    Verb(
        "completion",
        "Print a completion script for your shell",
        "parser.completion:completion",
        operands="bash|zsh|fish",
        least=1,
        most=1,
        examples=(
            ('eval "$(holdfast completion bash)"', "in ~/.bashrc"),
            ('eval "$(holdfast completion zsh)"', "in ~/.zshrc, after compinit"),
            ("holdfast completion fish | source", "in ~/.config/fish/config.fish"),
        ),
    ),
    Verb(
        "version",
        "Show the versions of this CLI and of the daemon",
        "setup:version",
        commands=(),
        examples=(("holdfast version --json", "for programs"),),
    ),
    Verb(
        "help",
        "Show help, of a verb or of all",
        "parser.help:help_verb",
        operands="[VERB]",
        most=1,
        examples=(("holdfast help logs", "options and examples of a verb"),),
    ),
)
