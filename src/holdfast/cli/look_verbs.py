"""Verbs that show what is going on."""

from __future__ import annotations

from holdfast.cli.parser.verb import NO_PREFIX, SERVICES, TIMESTAMPS, Option, Verb

LOOK_VERBS = (
    Verb(
        "status",
        "Tell what each service is doing",
        "status:status",
        operands=SERVICES,
        most=None,
        commands=("status",),
        examples=(
            ("holdfast status", "all services"),
            ("holdfast status web --json", "one service, for programs"),
        ),
    ),
    Verb(
        "logs",
        "Show what services printed",
        "logs:logs",
        operands=SERVICES,
        most=None,
        options=(
            Option("-f --follow", "go on with what they print from now on"),
            Option("--since", "only what is newer: 10m, 2h, or a time", "TIME", "when"),
            Option("-n --tail", "only the last lines of each service", "N", "number"),
            Option("--grep", "only lines that match", "REGEX"),
            Option("--stream", "only standard output or error", choices=("out", "err")),
            Option("--run", "only this run (`holdfast runs SERVICE`)", "N", "number"),
            Option("--raw", "the bytes as printed, nothing added or hidden"),
            TIMESTAMPS,
            NO_PREFIX,
        ),
        commands=("watch", "status"),
        about="Several services are interleaved by time. Works with no daemon at all, too.",
        examples=(
            ("holdfast logs -f", "follow everything"),
            ("holdfast logs web --since 10m --grep 'ERROR|WARN'", "what went wrong just now"),
            ("holdfast logs db --run 3 --raw > run3.log", "one run, byte for byte"),
        ),
    ),
    Verb(
        "events",
        "Tell what happened",
        "history:events",
        operands=SERVICES,
        most=None,
        options=(
            Option("-f --follow", "go on with what happens from now on"),
            Option(
                "--since", "only what is newer: 10m, a time, or an event's number", "TIME", "place"
            ),
            Option("-n --tail", "only the newest", "N", "number"),
        ),
        commands=("events",),
        examples=(
            ("holdfast events -f", "watch everything happen"),
            ("holdfast events web --since 10m", "what happened to web just now"),
            ("holdfast events --since 120 --json", "replay from an event on, for programs"),
        ),
    ),
    Verb(
        "ps",
        "Show the process tree of each service",
        "ps:ps",
        operands=SERVICES,
        most=None,
        commands=("ps",),
        examples=(("holdfast ps web", "every process that belongs to web"),),
    ),
    Verb(
        "runs",
        "List the runs of a service, and how each ended",
        "history:runs",
        operands="SERVICE",
        least=1,
        most=1,
        options=(Option("-n --tail", "only the newest; 20 by default", "N", "number"),),
        commands=("runs",),
        examples=(("holdfast runs web", "then `holdfast logs web --run N`"),),
    ),
    Verb(
        "attach",
        "Use a service's terminal",
        "attach:attach",
        operands="SERVICE",
        least=1,
        most=1,
        commands=("status", "send_input", "resize", "watch"),
        about="Detach with ctrl-p ctrl-q; the service goes on.",
        examples=(("holdfast attach shell", "type into it, see what it prints"),),
    ),
    Verb(
        "ls",
        "List every Holdfast of this user",
        "listing:ls",
        examples=(("holdfast ls", "all projects, running or left over from a crash"),),
    ),
)
