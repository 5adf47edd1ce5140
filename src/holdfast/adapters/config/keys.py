"""Every key of the configuration, described once: name, kind, meaning and default.

The parser reads by this, the JSON Schema is made from it, and a test holds the guide to it.
"""

from __future__ import annotations

from holdfast.adapters.config.alert_keys import ALERTS, LOG_FORMAT
from holdfast.adapters.config.audit_keys import AUDIT
from holdfast.adapters.config.blocks import Block, Key, ServiceOrCommand, WordOrBlock
from holdfast.adapters.config.command_keys import GLOBAL_KEYS as COMMAND_GLOBALS
from holdfast.adapters.config.command_keys import SERVICE_KEYS as COMMAND_KEYS
from holdfast.adapters.config.dependency_keys import LABEL, Dependencies, Groups, Label
from holdfast.adapters.config.file_keys import FILES
from holdfast.adapters.config.git_keys import GIT
from holdfast.adapters.config.health_keys import PROBE
from holdfast.adapters.config.health_keys import SERVICE_KEYS as HEALTH_KEYS
from holdfast.adapters.config.host_kinds import Limits, UserName
from holdfast.adapters.config.instances import COUNT, InstancedService
from holdfast.adapters.config.kinds import (
    Boolean,
    Choice,
    Duration,
    Fraction,
    Integer,
    ListOf,
    Number,
    Octal,
    SignalName,
    Size,
    Text,
)
from holdfast.adapters.config.mcp_keys import MCP
from holdfast.adapters.config.policy_keys import FILTERS, POLICIES, RATE_LIMIT, SECRETS
from holdfast.adapters.config.port_keys import PORT_RANGE
from holdfast.adapters.config.port_keys import SERVICE_KEYS as PORT_KEYS
from holdfast.adapters.config.resource_keys import GLOBAL_KEYS as RESOURCE_GLOBALS
from holdfast.adapters.config.resource_keys import SERVICE_KEYS as RESOURCE_KEYS
from holdfast.adapters.config.schedule_keys import Schedule
from holdfast.adapters.config.service_kinds import (
    Arguments,
    CommandLine,
    LogLevel,
    ServiceName,
    Variables,
)
from holdfast.adapters.config.session_keys import ON_SESSION_END
from holdfast.adapters.config.watch_keys import WatchPaths
from holdfast.vocabulary.specs.services import UNLIMITED

LARGEST_SEGMENT = 4 * 1024**3 - 1
ENVIRONMENT = Choice("inherit", "clean", instead="write inherit or clean; variables go under env")
COUNT_OR_UNLIMITED = Integer(0, words={"unlimited": UNLIMITED})
POLICY = Choice(
    "always",
    "on_failure",
    "never",
    aliases={
        "no": "never",
        "false": "never",
        "unless_stopped": "always",
        "onfailure": "on_failure",
    },
)

RESTART = Block(
    [
        Key("policy", POLICY, "The same as restart_policy.", "on_failure"),
        Key("delay", Duration("ms"), "Wait before the first restart.", "5s"),
        Key("max_delay", Duration("ms"), "The longest wait that back-off reaches.", "60s"),
        Key("backoff", Number(1, 1000), "Each wait is this many times the one before.", 2.0),
        Key("jitter", Fraction(), "Random part added to or taken from each wait.", "10%"),
        Key(
            "max_restarts",
            COUNT_OR_UNLIMITED,
            "Consecutive failures before the service is given up as failed.",
            10,
        ),
        Key(
            "reset_after",
            Duration("ms"),
            "Running this long forgets the failures counted before.",
            "60s",
        ),
    ],
    definition="restart",
    synonyms={"restart_policy": "policy", "initial_delay": "delay", "multiplier": "backoff"},
)
STOP = Block(
    [
        Key("signal", SignalName(), "What asks the service to end.", "SIGTERM"),
        Key("grace", Duration("s"), "How long it has before its whole tree is killed.", "5s"),
    ],
    definition="stop",
    synonyms={"timeout": "grace", "grace_period": "grace"},
)
LOG = Block(
    [
        Key("max_size", Size(4096, LARGEST_SEGMENT), "Size of one log segment.", "16MiB"),
        Key("total_size", Size(4096, 2**62), "The oldest segments go beyond this.", "256MiB"),
    ],
    definition="log",
)
SERVICE = Block(
    [
        Key("command", CommandLine(), "What to run: words as a shell would split them, or a list."),
        Key("args", Arguments(), "Further words, put behind the command."),
        Key("shell", Boolean(), "Run the command with /bin/sh -c.", False),
        Key("working_dir", Text(), "Where it runs, relative to this file.", "."),
        Key("env", Variables(), "Its environment variables; a name alone takes the caller's."),
        Key("env_file", ListOf(Text()), "Files of NAME=VALUE lines; `-` in front: may be absent."),
        Key(
            "environment",
            ENVIRONMENT,
            "Begin with the environment of `holdfast up`, or with nothing.",
            "inherit",
        ),
        Key("enabled", Boolean(), "False: known, but not started by `up`.", True),
        Key("autostart", Boolean(), "Start it with `holdfast up`.", True),
        Key("restart_policy", POLICY, "Which exits start it again.", "on_failure"),
        Key("restart", WordOrBlock("policy", RESTART), "How it is started again."),
        Key("max_restarts", COUNT_OR_UNLIMITED, "The same as restart.max_restarts.", 10),
        Key("start_seconds", Duration("s"), "An exit within this is a failure to start.", "1s"),
        Key("start_retries", Integer(0), "Failed starts that are tried again.", 3),
        Key("success_exit_codes", ListOf(Integer(0, 255)), "Exit codes that are no failure.", [0]),
        Key("stop", STOP, "How it is asked to end."),
        Key("terminal", Boolean(), "Give it a terminal instead of pipes.", False),
        Key("stdin", Choice("null", "pipe"), "What it reads: nothing, or what is sent.", "null"),
        Key("user", UserName(), "Run as this user (needs root)."),
        Key("umask", Octal(), "Permissions that new files do not get; always octal."),
        Key("rlimits", Limits(), "Resource limits."),
        *RESOURCE_KEYS,
        *COMMAND_KEYS,
        Key("log", LOG, "How much of its output is kept."),
        Key(
            "on_supervisor_exit",
            Choice("stop", "keep"),
            "On a requested shutdown: stop it, or leave it running.",
            "stop",
        ),
        ON_SESSION_END,
        Key(
            "survivors",
            Choice("adopt", "stop"),
            "What `up` does with a process left from before a crash of everything.",
            "adopt",
        ),
        Key("essential", Boolean(), "Its failure ends the whole Holdfast.", False),
        Key("depends_on", Dependencies(), "Services to start before it."),
        Key("tags", ListOf(Label()), "Words by which verbs find it, as `tag:WORD`."),
        Key("instances", COUNT, "How many of it run, as NAME@1, NAME@2 …"),
        Key("overlap", Boolean(), "A rolling restart starts the new run beside the old.", False),
        Key("watch", WatchPaths(), "Files whose change restarts it."),
        Key("schedule", Schedule(), "When it is started, instead of with `up`."),
        *PORT_KEYS,
        *HEALTH_KEYS,
    ],
    definition="service",
    later=(
        *("groups", "ready"),
        *("sockets", "lifetime", "resources", "ready_check"),
    ),
    synonyms={
        "cmd": "command",
        "exec": "command",
        "run": "command",
        "argv": "command",
        "cwd": "working_dir",
        "dir": "working_dir",
        "directory": "working_dir",
        "workdir": "working_dir",
        "working_directory": "working_dir",
        "vars": "env",
        "variables": "env",
        "autorestart": "restart_policy",
        "stop_signal": "stop.signal",
        "stop_timeout": "stop.grace",
        "stop_grace_period": "stop.grace",
        "kill_timeout": "stop.grace",
        "tty": "terminal",
        "pty": "terminal",
        "ulimits": "rlimits",
        "limits": "rlimits",
        "healthcheck": "health_check",
        "depends": "depends_on",
        "requires": "depends_on",
        "startsecs": "start_seconds",
        "exit_codes": "success_exit_codes",
    },
)
AUTHENTICATION = Block(
    [
        Key("enabled", Boolean(), "Ask for a token on the network doors.", False),
        Key(
            "token",
            Text(),
            "The token, 20 characters or more; better ${SUPERVISOR_TOKEN} than written out.",
        ),
    ],
    definition="authentication",
)
TLS_MODE = Choice("self", "off", aliases={"true": "self", "false": "off", "on": "self"})
TLS = Block(
    [
        Key("mode", TLS_MODE, "self: make a certificate for this machine.", "off"),
        Key("certificate", Text(), "A file with the certificate and its chain (PEM)."),
        Key("key", Text(), "A file with its private key (PEM)."),
    ],
    definition="tls",
    synonyms={"cert": "certificate", "certfile": "certificate", "keyfile": "key"},
)
SECURITY = Block(
    [
        Key("allowed_origins", ListOf(Text()), "Pages of these origins may use HTTP as well."),
        Key("bind_to_localhost", Boolean(), "Listen only for this machine.", True),
        Key("allowed_commands", ListOf(Text()), "The only commands the network doors take."),
        Key("open_status", Boolean(), "Loopback may ask status and health without token.", False),
        Key("authentication", AUTHENTICATION, "Who may pass the network doors."),
        FILTERS,
        RATE_LIMIT,
        SECRETS,
    ],
    definition="security",
)
_GLOBAL = [
    Key(
        "services",
        ServiceName(InstancedService(ServiceOrCommand(SERVICE)), rf"(?!holdfast\.){LABEL}"),
        "The services by name; a text instead of a block is the command.",
    ),
    Key("groups", Groups(ListOf(Text()), LABEL), "Names for several services: a list each."),
    Key("enabled", Boolean(), "False: no service is started by `up`.", True),
    Key("host", Text(), "Where the network doors listen.", "127.0.0.1"),
    Key("port", Integer(0, 65535), "The port of the control door.", 8081),
    Key("tcp", Boolean(), "Open the control door.", True),
    Key("http", Boolean(), "Serve HTTP: REST, WebSocket and what follows.", True),
    Key("http_port", Integer(0, 65535), "The port of HTTP.", 3001),
    Key("tls", WordOrBlock("mode", TLS), "Serve HTTPS: with this certificate, or `self`."),
    Key("log_level", LogLevel(), "How much Holdfast's own log says.", "info"),
    LOG_FORMAT,
    ALERTS,
    Key("runtime_mode", Choice("proxy", "advanced"), "Advanced adds policies.", "proxy"),
    POLICIES,
    AUDIT,
    Key("security", SECURITY, "Who may do what from the network."),
    MCP,
    FILES,
    GIT,
    PORT_RANGE,
    *RESOURCE_GLOBALS,
    *COMMAND_GLOBALS,
    Key("restart_policy", POLICY, "Default for every service.", "on_failure"),
    Key("restart", WordOrBlock("policy", RESTART), "Default for every service."),
    Key("stop", STOP, "Default for every service."),
    Key("log", LOG, "Default for every service."),
    Key("health_check", PROBE, "Default for every service's probes."),
    Key("environment", ENVIRONMENT, "Default for every service.", "inherit"),
    Key("env", Variables(), "Variables for every service."),
    Key("env_file", ListOf(Text()), "Files of variables for every service."),
]
_LATER = ("backends", "agents", "queue", "pools", "tokens")
_SYNONYMS = {"service": "services", "programs": "services", "processes": "services"}
SUPERVISOR = Block(
    _GLOBAL, definition="supervisor", later=_LATER, synonyms=_SYNONYMS, allows_extensions=True
)
ROOT = Block(
    [
        *_GLOBAL,
        Key("supervisor", SUPERVISOR, "All of the above may also stand under this key."),
        Key("$schema", Text(), "For editors; not used."),
    ],
    later=_LATER,
    synonyms=_SYNONYMS,
    allows_extensions=True,
)
