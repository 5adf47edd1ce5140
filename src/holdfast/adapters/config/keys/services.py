"""The keys of a service, and how a ServiceSpec is built from them.

The builder merges the defaults of the configuration, resolves paths and finds contradictions. Its
result is complete: nothing in a ServiceSpec needs looking up again. A service with `instances: N`
is one block in the file and is read once for each instance. `scale` makes further instances from a
small document that keeps what the file said when it was read.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Literal

import msgspec

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table, TableEntry
from holdfast.adapters.config.keys.commands import Recovery
from holdfast.adapters.config.keys.dependencies import (
    DependencyList,
    check_dependencies,
    dependencies_of,
)
from holdfast.adapters.config.keys.foreign import SERVICE_KEYS
from holdfast.adapters.config.keys.health import (
    NOTIFY,
    PERIOD,
    PROBE,
    Notify,
    ProbeUrl,
    build_probes,
    probe_texts,
)
from holdfast.adapters.config.keys.resources import (
    MOST_CORES,
    PORT,
    MemoryBlock,
    PortNames,
    ResourceLimits,
    UserName,
    check_placeholders,
    check_references,
    collect_ports,
)
from holdfast.adapters.config.keys.triggers import Schedule, WatchPaths, check_schedules
from holdfast.adapters.config.kinds.blocks import (
    Block,
    Key,
    MapOf,
    Values,
    WordOrBlock,
    agreed_value,
    default_of,
)
from holdfast.adapters.config.kinds.command_lines import (
    CommandLine,
    FurtherArguments,
    VariableName,
    Variables,
    shell_words,
    split_words,
)
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    Fraction,
    Integer,
    Label,
    ListOf,
    Number,
    Octal,
    Percent,
    SignalName,
    Size,
    Text,
)
from holdfast.adapters.config.problems import Problem
from holdfast.adapters.config.sources import note_source, read_env_file, remedy_for, resolve_path
from holdfast.vocabulary.names import SERVICE_NAME_RULE, closest, is_service_name
from holdfast.vocabulary.specs.probes import ProbeSpec
from holdfast.vocabulary.specs.services import (
    MOST_INSTANCES,
    UNLIMITED,
    LogSpec,
    RestartSpec,
    ServiceSpec,
    StopSpec,
)
from holdfast.vocabulary.specs.settings import Template

TARGET_COMMAND = "SUPERVISOR_TARGET_CMD"
TARGET_FOLDER = "SUPERVISOR_WORKING_DIR"
COUNT = Integer(0, MOST_INSTANCES)
LARGEST_SEGMENT = 4 * 1024**3 - 1
INHERITANCE = Choice("inherit", "clean", instead="write inherit, clean, or variables as under env")


class EnvironmentKey(Variables):
    """`inherit` or `clean`; or variables, which are then the same as `env`."""

    wanted = "inherit, clean or variables"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        if isinstance(node, Scalar):
            return INHERITANCE.read(node, key, reading)
        return super().read(node, key, reading)

    def schema(self) -> Schema:
        return {"anyOf": [*INHERITANCE.schema()["anyOf"], *super().schema()["anyOf"]]}


COUNT_OR_UNLIMITED = Integer(0, words={"unlimited": UNLIMITED})
RESTART_POLICY = Choice(
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
        Key(
            "policy",
            RESTART_POLICY,
            "The same as restart_policy.",
            default_of(ServiceSpec, "restart_policy"),
        ),
        Key("delay", Duration("ms"), "Wait before the first restart."),
        Key("max_delay", Duration("ms"), "The longest wait that back-off reaches."),
        Key("backoff", Number(1, 1000), "Each wait is this many times the one before."),
        Key("jitter", Fraction(), "Random part added to or taken from each wait."),
        Key(
            "max_restarts",
            COUNT_OR_UNLIMITED,
            "Consecutive failures before the service is given up as failed.",
        ),
        Key(
            "reset_after",
            Duration("ms"),
            "Running this long forgets the failures counted before.",
        ),
    ],
    spec=RestartSpec,
    definition="restart",
    synonyms={"restart_policy": "policy", "initial_delay": "delay", "multiplier": "backoff"},
)
STOP = Block(
    [
        Key("signal", SignalName(), "What asks the service to end.", "SIGTERM"),
        Key("grace", Duration("s"), "How long it has before its whole tree is killed."),
    ],
    spec=StopSpec,
    definition="stop",
    synonyms={"timeout": "grace", "grace_period": "grace"},
)
LOG = Block(
    [
        Key("max_size", Size(4096, LARGEST_SEGMENT), "Size of one log segment."),
        Key("total_size", Size(4096, 2**62), "The oldest segments go beyond this."),
    ],
    spec=LogSpec,
    definition="log",
)
SERVICE = Block(
    [
        Key("command", CommandLine(), "What to run: words as a shell would split them, or a list."),
        Key("args", FurtherArguments(), "Further words, put behind the command."),
        Key("shell", Boolean(), "Run the command with /bin/sh -c.", False),
        Key("working_dir", Text(), "Where it runs, relative to this file.", "."),
        Key("env", Variables(), "Its environment variables; a name alone takes the caller's."),
        Key("env_file", ListOf(Text()), "Files of NAME=VALUE lines; `-` in front: may be absent."),
        Key(
            "environment",
            EnvironmentKey(),
            "Begin with the environment of `holdfast up`, or with nothing.",
        ),
        Key(
            "mode_env",
            VariableName(),
            "The variable that tells it the runtime mode; a switch restarts it.",
        ),
        Key(
            "follows_mode",
            Boolean(),
            "The same with HOLDFAST_RUNTIME_MODE and MAGICTUNNEL_RUNTIME_MODE.",
        ),
        Key("enabled", Boolean(), "False: known, but not started by `up`."),
        Key("autostart", Boolean(), "Start it with `holdfast up`."),
        Key("profiles", ListOf(Label()), "`up` starts it only with one of these profiles."),
        Key("restart_policy", RESTART_POLICY, "Which exits start it again."),
        Key("restart", WordOrBlock("policy", RESTART), "How it is started again."),
        Key(
            "max_restarts",
            COUNT_OR_UNLIMITED,
            "The same as restart.max_restarts.",
            default_of(RestartSpec, "max_restarts"),
        ),
        Key("start_seconds", Duration("s"), "An exit within this is a failure to start."),
        Key("start_retries", Integer(0), "Failed starts that are tried again."),
        Key("success_exit_codes", ListOf(Integer(0, 255)), "Exit codes that are no failure."),
        Key("stop", STOP, "How it is asked to end."),
        Key("terminal", Boolean(), "Give it a terminal instead of pipes."),
        Key("stdin", Choice("null", "pipe"), "What it reads: nothing, or what is sent."),
        Key("user", UserName(), "Run as this user (needs root)."),
        Key("umask", Octal(), "Permissions that new files do not get; always octal."),
        Key("rlimits", ResourceLimits(), "Resource limits."),
        Key("memory_limit", MemoryBlock(), "Memory that its whole tree may use."),
        Key(
            "cpu_limit",
            Percent(MOST_CORES * 100),
            "Percent of one core that its whole tree may use.",
        ),
        Key("process_limit", Integer(1), "Processes and threads that its tree may have."),
        Key("timeout", Duration("s", is_zero_allowed=False), "The longest that a run may take."),
        Key("recovery", Recovery(), "What is done about trouble, by cause."),
        Key("log", LOG, "How much of its output is kept."),
        Key(
            "on_supervisor_exit",
            Choice("stop", "keep"),
            "On a requested shutdown: stop it, or leave it running.",
        ),
        Key(
            "on_session_end",
            Choice("stop", "keep", "hand_over"),
            "When the session that started it ends; by default as the session says.",
        ),
        Key(
            "survivors",
            Choice("adopt", "stop"),
            "What `up` does with a process left from before a crash of everything.",
        ),
        Key("essential", Boolean(), "Its failure ends the whole Holdfast."),
        Key("depends_on", DependencyList(), "Services to start before it."),
        Key("tags", ListOf(Label()), "Words by which verbs find it, as `tag:WORD`."),
        Key("instances", COUNT, "How many of it run, as NAME@1, NAME@2 …"),
        Key("overlap", Boolean(), "A rolling restart starts the new run beside the old."),
        Key("watch", WatchPaths(), "Files whose change restarts it."),
        Key("schedule", Schedule(), "When it is started, instead of with `up`."),
        Key("port", PORT, "A port it listens on, told as PORT; `auto` leases a free one."),
        Key("ports", PortNames(), "Further ports by name, told as PORT_NAME."),
        Key("health_check", PROBE, "How its health is asked."),
        Key("health_check_url", ProbeUrl(), "The same as health_check.http."),
        Key(
            "health_check_interval",
            PERIOD,
            "The same as health_check.interval.",
            default_of(ProbeSpec, "interval"),
        ),
        Key(
            "consecutive_failures",
            Integer(1, 1000),
            "The same as health_check.retries.",
            default_of(ProbeSpec, "retries"),
        ),
        Key("startup", PROBE, "When it has started up; nothing else is asked before."),
        Key("readiness", PROBE, "Whether it can do its work; a failure restarts nothing."),
        Key("liveness", PROBE, "Whether it still works; a failure restarts it."),
        Key("notify", Notify(NOTIFY), "It says itself that it is ready (sd_notify).", False),
    ],
    spec=ServiceSpec,
    definition="service",
    later=(
        *("groups", "ready"),
        *("sockets", "lifetime", "resources", "ready_check"),
    ),
    foreign=SERVICE_KEYS,
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
SERVICE_DEFAULTS = [
    Key(
        "restart_policy",
        RESTART_POLICY,
        "Default for every service.",
        default_of(ServiceSpec, "restart_policy"),
    ),
    Key("restart", WordOrBlock("policy", RESTART), "Default for every service."),
    Key("stop", STOP, "Default for every service."),
    Key("log", LOG, "Default for every service."),
    Key("health_check", PROBE, "Default for every service's probes."),
    Key(
        "environment",
        EnvironmentKey(),
        "Default for every service.",
        default_of(ServiceSpec, "environment"),
    ),
    Key("env", Variables(), "Variables for every service."),
    Key("env_file", ListOf(Text()), "Files of variables for every service."),
    Key(
        "resources",
        Block(
            [Key("memory_limit", MemoryBlock(), "Memory that the whole tree of each may use.")],
            definition="resources",
        ),
        "What every service may use, unless it says otherwise.",
    ),
]
"""Keys at the top of the file that give defaults to every service."""
SHARED = ("enabled", *(key.name for key in SERVICE_DEFAULTS))
"""Keys at the top of the file that a service is built from."""


class Service(Kind):
    """The block of a service, or its command alone.

    A service with `instances` is read once for each instance, because any of its values may hold
    `{{ index }}`.
    """

    wanted = "a service"

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        entry = node.entries.get("instances") if isinstance(node, Table) else None
        if entry is None or (isinstance(entry.node, Scalar) and entry.node.is_null):
            return self.read_one(node, key, reading)
        count = COUNT.read(entry.node, f"{key}.instances", reading)
        instances: list[Values] = []
        # At least once, so that every problem in it is reported.
        for index in range(1, max(count or 0, 1) + 1):
            reading.index = index
            try:
                values = self.read_one(node, key, reading)
            finally:
                reading.index = None
            if values is None:
                return None
            instances.append(values)
        first = instances[0]
        first.instances = instances[: count or 0]
        first.source = node
        return first

    def read_one(self, node: Node, key: str, reading: Reading) -> Values | None:
        if isinstance(node, Table):
            return SERVICE.read(node, key, reading)
        if isinstance(node, Scalar) and node.is_null:
            reading.note(node, key, "this service has no command", "write command: … below it")
            return None
        here = Scalar("command", True, node.line, node.column)
        return SERVICE.read_entries(node, {"command": TableEntry(here, node)}, key, reading)

    def schema(self) -> Schema:
        command = SERVICE.keys["command"].kind.schema()
        return {"anyOf": [*command["anyOf"], SERVICE.schema()]}


class ServicesByName(MapOf):
    """The services by name."""

    wanted = "a mapping of services"

    def wrong_name(self, name: str) -> tuple[str, str]:
        lower = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:63]
        if "@" in name:
            message = 'a name may not contain "@", which counts the instances of a service'
        else:
            message = f'"{name}" is not a name for a service'
        hint = f'write "{lower}"; ' if is_service_name(lower) else ""
        return message, f"{hint}names are {SERVICE_NAME_RULE}"

    def hint(self) -> str:
        return "write each service as an indented name with its keys below"


class ServiceBuilder:
    """Builds the specs of all services, with the defaults that the configuration itself gives."""

    def __init__(self, reading: Reading, defaults: Values) -> None:
        self.reading = reading
        self.defaults = defaults
        self.is_enabled = defaults.get("enabled", True)
        profiles = reading.profiles
        self.profiles = frozenset(defaults.get("profiles", ()) if profiles is None else profiles)
        shared = {name: defaults[name] for name in SHARED if name in defaults}
        self.shared = SERVICE.fill(_without_variables(shared))
        resources = defaults.get("resources", {})
        if "memory_limit" in resources:
            self.shared["memory_limit"] = resources["memory_limit"]
        folder = None if reading.environ.get(TARGET_COMMAND) else reading.environ.get(TARGET_FOLDER)
        self.folder = os.path.normpath(os.path.join(reading.folder, folder or "."))
        """Where services run that do not say where."""
        self.env_files: dict[str, dict[str, str]] = {}
        self.shared_env = self.collect_variables(defaults)

    def build(self, services: dict[str, Values]) -> dict[str, ServiceSpec]:
        """Build every service, and check how the services fit together."""
        specs = self.build_each(services)
        check_dependencies(self.reading, services, specs)
        check_schedules(self.reading, services)
        check_references(self.reading, services, specs)
        return specs

    def build_each(self, services: dict[str, Values]) -> dict[str, ServiceSpec]:
        """Build every service; one with `instances` once for each instance."""
        specs: dict[str, ServiceSpec] = {}
        for name, values in services.items():
            if values.instances is None:
                specs[name] = self.build_service(name, values, *self.split_command(values))
                continue
            # With no instances, too, every problem in it is reported.
            for index, instance in enumerate(values.instances or [values], start=1):
                self.reading.index = index
                command, args = self.split_command(instance)
                spec = self.build_service(f"{name}@{index}", instance, command, args)
                if values.instances:
                    specs[spec.name] = msgspec.structs.replace(spec, template=name, index=index)
            self.reading.index = None
        return specs

    def build_service(
        self,
        name: str,
        values: Values,
        command: tuple[str, ...],
        args: tuple[str, ...] = (),
        origin: Literal["config", "target"] = "config",
    ) -> ServiceSpec:
        """Build one service: fill what the rows fill, and work out the other fields."""
        fields = {**self.shared, **SERVICE.fill(_without_variables(values))}
        probes, notify = build_probes(self.reading, self.defaults, values)
        ports = collect_ports(self.reading, values)
        env = {**self.shared_env, **self.collect_variables(values)}
        asking = [target for probe in probes for target in probe_texts(probe)]
        texts = (*command, *args, *env.values(), *asking)
        check_placeholders(self.reading, values, ports, texts)
        policy = self.find_policy(values) or self.find_policy(self.defaults)
        if policy is not None:
            fields["restart_policy"] = policy
        folder = values.get("working_dir")
        fields.update(
            name=name,
            argv=command + args,
            command_words=len(command),
            working_dir=self.folder
            if folder is None
            else resolve_path(folder, self.reading.folder, self.reading.environ),
            env=env,
            ports=ports,
            enabled=self.is_enabled and values.get("enabled", True),
            restart=self.build_restart(values),
            stop=StopSpec(**self.merge("stop", values)),
            log=self.build_log(values),
            autostart=values.get("autostart", True) and self.has_profile(values),
            depends_on=tuple(entry.as_dependency() for entry in dependencies_of(values)),
            probes=probes,
            notify=notify,
            origin=origin,
        )
        return ServiceSpec(**fields)

    def has_profile(self, values: Values) -> bool:
        """Return whether a service has no profiles, or one that is wanted now."""
        profiles = values.get("profiles", ())
        return not profiles or not self.profiles.isdisjoint(profiles)

    def split_command(self, values: Values) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the words of the command, and those of its arguments."""
        command: Node | None = values.get("command")
        arguments: Node | None = values.get("args")
        path = values.path_of("command")
        if command is None:
            if "command" not in values.refused:
                message = "this service has no command"
                self.reading.note(values.node, values.path, message, "add command: …")
            return (), ()
        if values.get("shell"):
            if arguments is not None:
                message = "args cannot be used with shell: true"
                hint = "write the arguments into the command"
                self.reading.note(arguments, values.path_of("args"), message, hint)
            return shell_words(command, path, self.reading), ()
        words = split_words(command, path, self.reading, is_command=True)
        more: list[str] | None = []
        if arguments is not None:
            more = split_words(arguments, values.path_of("args"), self.reading, is_command=False)
        return tuple(words or ()), tuple(more or ())

    def collect_variables(self, values: Values) -> dict[str, str]:
        """Return the variables of the files in their order, then those written out."""
        found: dict[str, str] = {}
        for written in values.get("env_file", ()):
            found.update(self.read_variables(written, values))
        given = values.get("environment")
        return {**found, **(given if isinstance(given, dict) else {}), **values.get("env", {})}

    def read_variables(self, written: str, values: Values) -> dict[str, str]:
        """Return the variables of one file; `-` in front means that it may be absent."""
        reading = self.reading
        path = resolve_path(written.removeprefix("-"), reading.folder, reading.environ)
        if path in self.env_files:
            return self.env_files[path]
        where = values.at("env_file"), values.path_of("env_file")
        variables: dict[str, str] = {}
        try:
            variables, problems = read_env_file(path, reading.sources)
            reading.problems.extend(problems)
        except FileNotFoundError:
            if not written.startswith("-"):
                hint = f'create it, or write "-{written}" if it may be absent'
                reading.note(*where, f"the file {path} does not exist", hint, written)
                return {}
            note_source(reading.sources, path, None)
        except OSError as error:
            message = f"the file {path} cannot be read: {error.strerror}"
            reading.note(*where, message, remedy_for(error), written)
        self.env_files[path] = variables
        return variables

    def find_policy(self, values: Values) -> Any:
        block: Values | dict[str, Any] = values.get("restart", {})
        return agreed_value(self.reading, values, "restart_policy", block, "policy")

    def build_restart(self, values: Values) -> RestartSpec:
        given = RESTART.fill(self.merge("restart", values))
        limit = agreed_value(
            self.reading, values, "max_restarts", values.get("restart", {}), "max_restarts"
        )
        if limit is not None:
            given["max_restarts"] = limit
        spec = RestartSpec(**given)
        if spec.delay > spec.max_delay:
            if "max_delay" not in given:
                return RestartSpec(**{**given, "max_delay": spec.delay})
            block: Values = values.get("restart") or self.defaults["restart"]
            message = f"max_delay ({spec.max_delay:g}s) is shorter than delay ({spec.delay:g}s)"
            self.reading.note(
                block.at("max_delay"), block.path_of("max_delay"), message, "raise max_delay"
            )
        return spec

    def build_log(self, values: Values) -> LogSpec:
        given = self.merge("log", values)
        spec = LogSpec(**given)
        if spec.total_size < spec.max_size:
            if "total_size" not in given:
                return LogSpec(max_size=spec.max_size, total_size=spec.max_size * 4)
            if "max_size" not in given:
                return LogSpec(max_size=spec.total_size, total_size=spec.total_size)
            block = values.get("log") or self.defaults["log"]
            message = f"total_size ({spec.total_size}) is below max_size ({spec.max_size})"
            self.reading.note(
                block.at("total_size"), block.path_of("total_size"), message, "raise total_size"
            )
        return spec

    def merge(self, block: str, values: Values) -> dict[str, Any]:
        return {**self.defaults.get(block, {}), **values.get(block, {})}


def check_profiles(reading: Reading, services: dict[str, Values]) -> None:
    """Check that every profile that is wanted is one of a service."""
    known = {name for values in services.values() for name in values.get("profiles", ())}
    for wanted in reading.profiles or ():
        if wanted not in known:
            guess = closest(wanted, sorted(known))
            listed = f"known: {', '.join(sorted(known)) or 'none'}"
            hint = f'did you mean "{guess}"?' if guess else listed
            message = f'no service has the profile "{wanted}"'
            reading.problems.append(
                Problem(reading.file, None, None, "profiles", wanted, message, hint)
            )


def _without_variables(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without an `environment` that holds variables: that is `env`."""
    if not isinstance(values.get("environment"), dict):
        return values
    return {name: value for name, value in values.items() if name != "environment"}


def build_templates(
    reading: Reading, values: Values, services: dict[str, Values]
) -> dict[str, Template]:
    """Return, for every service with `instances`, the template of a further instance."""
    shared: dict[str, Node] = {key: values.where[key] for key in SHARED if key in values.where}
    if reading.profiles:
        names: list[Node] = [Scalar(name, True, 0, 0) for name in reading.profiles]
        shared["profiles"] = ListNode(names, 0, 0)
    return {
        name: Template(
            instances=len(service.instances),
            document=make_document(shared, name, service.source),
            folder=reading.folder,
        )
        for name, service in services.items()
        if service.instances is not None
    }


def make_document(root: dict[str, Node], name: str, service: Node) -> str:
    """Write a configuration with this service alone and the defaults of all services."""
    shared = {key: _to_plain(node) for key, node in root.items()}
    return json.dumps({**shared, "services": {name: _to_plain(service)}}, ensure_ascii=True)


def set_count(document: str, name: str, count: int) -> str:
    """Return the same document with another number of instances."""
    content = json.loads(document)
    content["services"][name]["instances"] = count
    return json.dumps(content, ensure_ascii=True)


def _to_plain(node: Node) -> Any:
    match node:
        case Scalar():
            return None if node.is_null else node.text
        case ListNode():
            return [_to_plain(item) for item in node.items]
        case Table():
            return {key: _to_plain(entry.node) for key, entry in node.entries.items()}
