"""THE table of verbs: parser, help, completion and reference page are made from it.

Adding a verb is adding a row here and a function where the row points. Imports no handler.
"""

from __future__ import annotations

from holdfast.cli.authority_verbs import AUTHORITY_VERBS
from holdfast.cli.file_verbs import FILE_VERBS
from holdfast.cli.git_verbs import GIT_VERBS
from holdfast.cli.health_verbs import HEALTH_VERBS
from holdfast.cli.instance_verbs import INSTANCE_VERBS
from holdfast.cli.mcp_verbs import MCP_VERBS
from holdfast.cli.metric_verbs import METRIC_VERBS
from holdfast.cli.reload_verbs import RELOAD_VERBS
from holdfast.cli.security_verbs import SECURITY_VERBS
from holdfast.cli.session_verbs import SESSION_VERBS
from holdfast.cli.trouble_verbs import TROUBLE_VERBS
from holdfast.cli.verb import Option, Verb
from holdfast.cli.workflow_verbs import WORKFLOW_VERBS

GLOBAL_OPTIONS = (
    Option("-c --config", "use this configuration (environment: HOLDFAST_CONFIG)", "FILE"),
    Option("-C", "work as if started in this folder", "DIR"),
    Option("--state-dir", "keep state and sockets here (environment: HOLDFAST_STATE_DIR)", "DIR"),
    Option("--log-level", "how much Holdfast logs of itself: info, or engine=debug,…", "LEVEL"),
    Option("--log-format", "how it does so", choices=("human", "json")),
    Option("--port", "port of the network door", "N", "number"),
    Option("--json", "answer in JSON: one object, or one a line for streams"),
    Option("--color", "when to use colour (NO_COLOR: never)", choices=("auto", "always", "never")),
    Option("-h --help", "show help"),
    Option("-V --version", "show the version"),
)

_SERVICES = "[SERVICE…]"
_NO_WAIT = Option("--no-wait", "do not wait until each has stayed up for its start_seconds")
_TIMEOUT = Option("--timeout", "wait no longer than this; 2m by default", "TIME", "duration")
_TIMESTAMPS = Option("-t --timestamps", "begin each line with its time")
_NO_PREFIX = Option("--no-prefix", "do not begin lines with the service's name")

VERBS = (
    Verb(
        "init",
        "Write a commented holdfast.yaml for this folder",
        "setup:init",
        options=(Option("--force", "replace the configuration that is there"),),
        about="Recognises what is in the folder: Procfile, package.json scripts, manage.py …",
        examples=(("holdfast init", "write holdfast.yaml, then look at it and run `holdfast up`"),),
    ),
    Verb(
        "up",
        "Start the services of the configuration",
        "up:up",
        operands=_SERVICES,
        most=None,
        options=(
            Option("-d --detach", "return when they run, instead of showing their output"),
            _NO_WAIT,
            _TIMEOUT,
            _TIMESTAMPS,
            _NO_PREFIX,
            Option("--no-http", "leave out HTTP: no gate, no dashboard"),
            Option("--http-port", "port of HTTP", "N", "number"),
        ),
        commands=("up", "watch", "events", "status", "shutdown"),
        about=(
            "What runs already is left alone. In the foreground, Ctrl-C in the `up` that started\n"
            "Holdfast stops everything (twice: at once); in one that joined it, it only detaches."
        ),
        examples=(
            ("holdfast up", "start everything and show its output"),
            ("holdfast up -d", "start everything in the background"),
            ("holdfast up -d --timeout 10m", "and wait for a slow migration"),
            ("holdfast up web db", "start two services, and what they depend on"),
        ),
    ),
    *RELOAD_VERBS,
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
            Option("--stdin", "keep its standard input open, instead of empty"),
            _NO_WAIT,
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
        "status",
        "Tell what each service is doing",
        "status:status",
        operands=_SERVICES,
        most=None,
        commands=("status",),
        examples=(
            ("holdfast status", "all services"),
            ("holdfast status web --json", "one service, for programs"),
        ),
    ),
    Verb(
        "start",
        "Start services, and those they depend on",
        "services:start",
        operands=_SERVICES,
        most=None,
        options=(_NO_WAIT, _TIMEOUT),
        commands=("start",),
        about="Starting what runs is success. Without names, all are started.",
        examples=(("holdfast start web", "start one service"),),
    ),
    Verb(
        "stop",
        "Stop services, until no process of them is left",
        "services:stop",
        operands=_SERVICES,
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
        operands=_SERVICES,
        most=None,
        options=(
            _NO_WAIT,
            _TIMEOUT,
            Option("-e --env", "add to its environment, until the next start", "N=V", "pairs"),
            Option("--rolling", "one at a time, each when the last is ready (rolling-restart)"),
            Option(
                "--args", "replace its arguments, until the next start; takes the rest of the line",
                "ARG…", "rest",
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
        "ps",
        "Show the process tree of each service",
        "ps:ps",
        operands=_SERVICES,
        most=None,
        commands=("ps",),
        examples=(("holdfast ps web", "every process that belongs to web"),),
    ),
    *METRIC_VERBS,
    Verb(
        "logs",
        "Show what services printed",
        "logs:logs",
        operands=_SERVICES,
        most=None,
        options=(
            Option("-f --follow", "go on with what they print from now on"),
            Option("--since", "only what is newer: 10m, 2h, or a time", "TIME", "when"),
            Option("-n --tail", "only the last lines of each service", "N", "number"),
            Option("--grep", "only lines that match", "REGEX"),
            Option("--stream", "only standard output or error", choices=("out", "err")),
            Option("--run", "only this run (`holdfast runs SERVICE`)", "N", "number"),
            Option("--raw", "the bytes as printed, nothing added or hidden"),
            _TIMESTAMPS,
            _NO_PREFIX,
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
        "events",
        "Tell what happened",
        "history:events",
        operands=_SERVICES,
        most=None,
        options=(
            Option("-f --follow", "go on with what happens from now on"),
            Option("--since", "only events after this sequence number", "SEQ", "number"),
            Option("-n --tail", "only the newest", "N", "number"),
        ),
        commands=("events",),
        examples=(
            ("holdfast events -f", "watch everything happen"),
            ("holdfast events --since 120 --json", "replay, for programs"),
        ),
    ),
    Verb(
        "wait",
        "Wait for a service, instead of polling",
        "history:wait",
        operands="SERVICE",
        least=1,
        most=1,
        options=(
            Option("--for", "running (default), ready, healthy, exited, or log:REGEX", "WHAT"),
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
        "ls",
        "List every Holdfast of this user",
        "listing:ls",
        examples=(("holdfast ls", "all projects, running or left over from a crash"),),
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
    Verb(
        "prune",
        "Delete old runs and logs",
        "services:prune",
        operands=_SERVICES,
        most=None,
        options=(Option("--older-than", "keep what is newer", "TIME", "duration"),),
        commands=("prune",),
        about="Live runs are never touched. Without --older-than, all ended runs go.",
        examples=(("holdfast prune --older-than 7d", "keep a week"),),
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
        "down",
        "Stop all services, then Holdfast itself",
        "down:down",
        options=(
            Option("--keep-running", "end only the supervisor; keeper and services stay"),
            Option("--now", "kill at once, without grace"),
        ),
        commands=("shutdown", "events"),
        examples=(
            ("holdfast down", "stop everything, in reverse order of dependency"),
            ("holdfast down --keep-running", "services go on; `holdfast up` joins them again"),
        ),
    ),
    Verb(
        "upgrade",
        "Swap the running Holdfast for the installed version",
        "upgrade:upgrade",
        commands=("upgrade", "status"),
        about="No service notices: pids, pipes, terminals and exit codes stay.",
        examples=(("holdfast upgrade", "after installing another version"),),
    ),
    *HEALTH_VERBS,
    *FILE_VERBS,
    *GIT_VERBS,
    *INSTANCE_VERBS,
    *WORKFLOW_VERBS,
    *TROUBLE_VERBS,
    *MCP_VERBS,
    *SECURITY_VERBS,
    *AUTHORITY_VERBS,
    *SESSION_VERBS,
    Verb(
        "doctor",
        "Check what this host allows, and how to get more",
        "doctor:doctor",
        examples=(("holdfast doctor", "each check: ok, or what is missing and the fix"),),
    ),
    Verb(
        "completion",
        "Print a completion script for your shell",
        "completion:completion",
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
        "help:help_verb",
        operands="[VERB]",
        most=1,
        examples=(("holdfast help logs", "options and examples of a verb"),),
    ),
)  # fmt: skip

BY_NAME = {verb.name: verb for verb in VERBS}
