"""From what was read to what is run: defaults merged, paths resolved, contradictions found.

The result is complete: nothing in a ServiceSpec needs looking up again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.adapters.config.blocks import Values
from holdfast.adapters.config.content import note_source, remedy_for
from holdfast.adapters.config.document import Node, Scalar
from holdfast.adapters.config.env_file import read_env_file, resolved
from holdfast.adapters.config.kinds import Reading
from holdfast.adapters.config.port_keys import check_placeholders, ports_of
from holdfast.adapters.config.probes import probes_of, texts_of
from holdfast.adapters.config.relations import check_dependencies, needs_of
from holdfast.adapters.config.resource_keys import COPIED as RESOURCES
from holdfast.adapters.config.schedule_keys import check_schedules
from holdfast.adapters.config.service_kinds import words_of
from holdfast.vocabulary.specs.services import LogSpec, RestartSpec, ServiceSpec, StopSpec

SHELL = ("/bin/sh", "-c")
COPIED = frozenset(
    (
        *("autostart", "start_seconds", "start_retries", "success_exit_codes", "terminal", "stdin"),
        *("user", "umask", "rlimits", "on_supervisor_exit", "survivors", "essential"),
        "on_session_end",
        *("watch", "schedule", "tags", "overlap", "recovery", *RESOURCES),
    )
)


class ServiceBuilder:
    """Makes every service of one configuration, with the configuration's own defaults."""

    def __init__(self, reading: Reading, defaults: Values) -> None:
        self.reading = reading
        self.defaults = defaults
        self.is_enabled = defaults.get("enabled", True)
        self.env_files: dict[str, dict[str, str]] = {}
        self.shared_env = self.variables(defaults)

    def build(self, services: dict[str, Values]) -> dict[str, ServiceSpec]:
        built = self.built(services)
        check_dependencies(self.reading, services, built)
        check_schedules(self.reading, services)
        return built

    def built(self, services: dict[str, Values]) -> dict[str, ServiceSpec]:
        """Every service; those with `instances` once for each."""
        specs: dict[str, ServiceSpec] = {}
        for name, values in services.items():
            if values.instances is None:
                specs[name] = self.service(name, values, *self.argv(values))
                continue
            # Without instances, too, what is wrong in it is told.
            for index, each in enumerate(values.instances or [values], start=1):
                self.reading.index = index
                spec = self.service(f"{name}@{index}", each, *self.argv(each))
                if values.instances:
                    specs[spec.name] = msgspec.structs.replace(spec, template=name, index=index)
            self.reading.index = None
        return specs

    def service(
        self,
        name: str,
        values: Values,
        command: tuple[str, ...],
        args: tuple[str, ...] = (),
        origin: Literal["config", "target"] = "config",
    ) -> ServiceSpec:
        folder = self.reading.folder
        given = {key: value for key, value in values.items() if key in COPIED}
        environment = values.get("environment") or self.defaults.get("environment", "inherit")
        probes, notify = probes_of(self, values)
        ports = ports_of(self.reading, values)
        env = {**self.shared_env, **self.variables(values)}
        asking = [target for probe in probes for target in texts_of(probe)]
        texts = (*command, *args, *env.values(), *asking)
        check_placeholders(self.reading, values, ports, texts)
        return ServiceSpec(
            name=name,
            argv=command + args,
            command_words=len(command),
            working_dir=resolved(values.get("working_dir", "."), folder, self.reading.environ),
            env=env,
            ports=ports,
            environment=environment,
            enabled=self.is_enabled and values.get("enabled", True),
            restart_policy=self.policy(values) or self.policy(self.defaults) or "on_failure",
            restart=self.restart(values),
            stop=StopSpec(**self.merged("stop", values)),
            log=self.log(values),
            depends_on=tuple(needed.as_dependency() for needed in needs_of(values)),
            probes=probes,
            notify=notify,
            origin=origin,
            **given,
        )

    def argv(self, values: Values) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of the command, and those of its arguments."""
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
            return self.shell_words(command, path), ()
        words = words_of(command, path, self.reading, is_command=True)
        more: list[str] | None = []
        if arguments is not None:
            more = words_of(arguments, values.path_of("args"), self.reading, is_command=False)
        return tuple(words or ()), tuple(more or ())

    def shell_words(self, command: Node, path: str) -> tuple[str, ...]:
        if not isinstance(command, Scalar):
            message = "with shell: true the command is one text, not a list"
            self.reading.note(command, path, message, "write it as one text")
            return ()
        text = self.reading.expanded(command, path)
        return () if text is None else (*SHELL, text)

    def variables(self, values: Values) -> dict[str, str]:
        """Those of the files in their order, then those written out."""
        found: dict[str, str] = {}
        for written in values.get("env_file", ()):
            found.update(self.env_file(written, values))
        return {**found, **values.get("env", {})}

    def env_file(self, written: str, values: Values) -> dict[str, str]:
        reading = self.reading
        path = resolved(written.removeprefix("-"), reading.folder, reading.environ)
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

    def policy(self, values: Values) -> Any:
        block: Values | dict[str, Any] = values.get("restart", {})
        return self.one_of(values, "restart_policy", block, "policy")

    def restart(self, values: Values) -> RestartSpec:
        given = self.merged("restart", values)
        given.pop("policy", None)
        limit = self.one_of(values, "max_restarts", values.get("restart", {}), "max_restarts")
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

    def log(self, values: Values) -> LogSpec:
        given = self.merged("log", values)
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

    def merged(self, block: str, values: Values) -> dict[str, Any]:
        return {**self.defaults.get(block, {}), **values.get(block, {})}

    def one_of(self, values: Values, outer: str, block: dict[str, Any], inner: str) -> Any:
        """A quantity with two names; both may be written if they agree."""
        one, other = values.get(outer), block.get(inner)
        if one is not None and other is not None and one != other and isinstance(block, Values):
            message = f"contradicts {block.path_of(inner)}"
            self.reading.note(values.at(outer), values.path_of(outer), message, "keep one of them")
        return other if one is None else one
