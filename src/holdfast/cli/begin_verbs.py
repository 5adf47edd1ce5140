"""Verbs with which everything begins and ends."""

from __future__ import annotations

from holdfast.cli.parser.verb import NO_PREFIX, NO_WAIT, SERVICES, TIMEOUT, TIMESTAMPS, Option, Verb

BEGIN_VERBS = (
    Verb(
        "init",
        "Write a commented holdfast.yaml for this folder",
        "setup:init",
        options=(Option("--force", "replace the configuration that is there"),),
        about=(
            "Recognises what is in the folder: Procfile, package.json scripts, manage.py …\n"
            "With -c it writes that file, for the folder that the file is in."
        ),
        examples=(
            ("holdfast init", "write holdfast.yaml, then look at it and run `holdfast up`"),
            ("holdfast init -c dev.yaml", "write another file beside it"),
        ),
    ),
    Verb(
        "up",
        "Start the services of the configuration",
        "up:up",
        operands=SERVICES,
        most=None,
        options=(
            Option("-d --detach", "return when they run, instead of showing their output"),
            Option("--unless-stopped", "leave off what was stopped by hand; for the start at boot"),
            Option("--trust", "start a configuration that an assistant may have written"),
            NO_WAIT,
            TIMEOUT,
            TIMESTAMPS,
            NO_PREFIX,
            Option("--no-http", "leave out HTTP: no gate, no dashboard"),
            Option("--http-port", "port of HTTP", "N", "number"),
        ),
        commands=("up", "watch", "events", "status", "shutdown"),
        about=(
            "What runs already is left alone; what was stopped by hand is started, unless\n"
            "--unless-stopped says otherwise.\n"
            "In the foreground, Ctrl-C in the `up` that started Holdfast stops everything\n"
            "(twice: at once); in one that joined it, it only detaches. So does closing the\n"
            "terminal: services go on, and `holdfast up` shows them again.\n"
            "The one that started Holdfast shows its log, too, on standard error: warnings,\n"
            "or all of it if you give a --log-level, or log_level in the configuration.\n"
            "A configuration that was found inside the project of another Holdfast is named.\n"
            "If it was written while that one ran, you are asked before its first start;\n"
            "where nobody can be asked, it is refused (exit code 5) without --trust."
        ),
        examples=(
            ("holdfast up", "start everything and show its output"),
            ("holdfast up -d", "start everything in the background"),
            ("holdfast up -d --timeout 10m", "and wait for a slow migration"),
            ("holdfast up -d --unless-stopped", "at boot: what was stopped by hand stays so"),
            ("holdfast up web db", "start two services, and what they depend on"),
        ),
    ),
    Verb(
        "run",
        "Supervise a command, with no configuration at all",
        "run:run",
        operands="-- COMMAND…",
        least=1,
        most=None,
        options=(
            Option("--name", "the service's name; the command's by default", "NAME"),
            Option("--wait", "show its output until it ends, and exit as it did; no restarts"),
            Option("--terminal", "give it a terminal, for `holdfast attach`"),
            Option(
                "--restart",
                "when to start it again; on_failure by default, with --wait never",
                choices=("always", "on_failure", "never"),
            ),
            Option("--stdin", "keep its standard input open: it waits there, and meets no end"),
            NO_WAIT,
        ),
        commands=("run", "watch", "status", "wait"),
        examples=(
            ("holdfast run -- python -m http.server", "keep a web server running"),
            ("holdfast run --name db --restart always -- postgres -D data", "under another name"),
            ("holdfast run --wait -- make test", "a task: follow it and pass its exit code on"),
        ),
        is_command_line=True,
    ),
    Verb(
        "down",
        "Stop all services, then Holdfast itself",
        "down:down",
        options=(
            Option("--keep-running", "end only the supervisor; keeper and services stay"),
            Option("--now", "kill at once, without grace"),
        ),
        commands=("shutdown", "events"),
        about=(
            "If processes cannot be killed, the keeper stays and holds them: they are named, and\n"
            "the exit code is 1."
        ),
        examples=(
            ("holdfast down", "stop everything, in reverse order of dependency"),
            ("holdfast down --keep-running", "services go on; `holdfast up` joins them again"),
        ),
    ),
)
