"""Verbs that act on services."""

from __future__ import annotations

from holdfast.cli.parser.verb import NO_WAIT, SERVICES, TIMEOUT, Option, Verb

ACT_VERBS = (
    Verb(
        "start",
        "Start services, and those they depend on",
        "services:start",
        operands=SERVICES,
        most=None,
        options=(NO_WAIT, TIMEOUT),
        commands=("start",),
        about="Starting what runs is success. Without names, all are started.",
        examples=(("holdfast start web", "start one service"),),
    ),
    Verb(
        "stop",
        "Stop services, until no process of them is left",
        "services:stop",
        operands=SERVICES,
        most=None,
        options=(
            Option("--grace", "time to end by itself before it is killed", "TIME", "duration"),
        ),
        commands=("stop",),
        about="Without names, all are stopped, in reverse order of dependency.",
        examples=(
            ("holdfast stop web", "ask it to end, kill it after its grace"),
            ("holdfast stop web --grace 0", "kill it at once"),
        ),
    ),
    Verb(
        "restart",
        "Stop services and start them again",
        "services:restart",
        operands=SERVICES,
        most=None,
        options=(
            NO_WAIT,
            TIMEOUT,
            Option("-e --env", "add to its environment, until the next start", "N=V", "pairs"),
            Option("--rolling", "one at a time, each when the last is ready (rolling-restart)"),
            Option(
                "--args",
                "replace its arguments, until the next start; takes the rest of the line",
                "ARG…",
                "rest",
            ),
        ),
        commands=("restart", "rolling_restart"),
        about="Works without waiting for a back-off, and for a service that failed too often.",
        examples=(
            ("holdfast restart web", "restart one service"),
            ("holdfast restart web --args --port 9000", "with other arguments, once"),
        ),
    ),
    Verb(
        "pause",
        "Freeze all processes of services",
        "services:pause",
        operands="SERVICE…",
        least=1,
        most=None,
        commands=("pause",),
        examples=(("holdfast pause worker", "it uses no CPU until it is resumed"),),
    ),
    Verb(
        "resume",
        "Let paused services continue",
        "services:resume",
        operands="SERVICE…",
        least=1,
        most=None,
        commands=("resume",),
        examples=(("holdfast resume worker", "continue where it was"),),
    ),
    Verb(
        "signal",
        "Send a signal to services",
        "services:signal",
        operands="SIGNAL SERVICE…",
        least=2,
        most=None,
        options=(
            Option("--to", "who gets it; main by default", choices=("main", "group", "tree")),
        ),
        commands=("signal",),
        examples=(("holdfast signal HUP nginx", "make it read its configuration again"),),
    ),
    Verb(
        "wait",
        "Wait for a service, instead of polling",
        "history:wait",
        operands="SERVICE",
        least=1,
        most=1,
        options=(
            Option(
                "--for",
                "running (default), ready, healthy, exited, log:REGEX or silent:SECONDS",
                "WHAT",
            ),
            Option("--timeout", "give up after this; 30s by default", "TIME", "duration"),
        ),
        commands=("wait",),
        about="Exit code 6 when it did not happen in time.",
        examples=(
            ("holdfast wait web --for ready --timeout 1m", "until its probes say so"),
            ("holdfast wait db --for 'log:ready to accept'", "until it printed a line"),
            ("holdfast wait job --for exited --timeout 10m", "until it ended"),
        ),
    ),
    Verb(
        "adopt",
        "Take over a process that already runs",
        "services:adopt",
        operands="NAME",
        least=1,
        most=1,
        options=(
            Option("--pid", "the process", "PID", "number"),
            Option("--pidfile", "the process whose number is in this file", "FILE"),
            Option("--port", "the process that listens on this port", "N", "number"),
        ),
        commands=("adopt",),
        about=(
            "Stop, signal and pause work. Its output is not available, and its exit code only\n"
            "where the kernel tells it."
        ),
        examples=(("holdfast adopt --port 5432 db", "whoever listens there is now `db`"),),
    ),
    Verb(
        "rm",
        "Forget services: stop them, delete their runs and logs",
        "services:rm",
        operands="SERVICE…",
        least=1,
        most=None,
        options=(Option("--keep-logs", "leave what they printed"),),
        commands=("remove",),
        examples=(("holdfast rm http.server", "forget what `holdfast run` brought in"),),
    ),
)
