"""The services of a configuration as writers of other formats see them.

A `DeclaredService` remembers which fields were taken. A field that the configuration gives another
value than the default, and that no writer took, is a loss: nothing is dropped in silence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.migration.findings import Loss, advice
from holdfast.secrets.redaction import is_secret_name, redact, redact_arguments
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    NotifyTarget,
    ProbeSpec,
    ProcessTarget,
    Role,
    TcpTarget,
)
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Configuration

_IDENTITY = frozenset({
    *("name", "argv", "command_words", "working_dir", "template", "index", "origin", "kind"),
    *("confined_to", "ports", "env", "environment", "survivors", "on_supervisor_exit"),
    *("on_session_end", "mode_env", "follows_mode"),
})  # fmt: skip
"""What every writer says, and what concerns Holdfast's own life alone."""
_PLACEHOLDER = re.compile(r"\{\{(?:services\.([\w.-]+?)\.)?(?:port|ports\.([\w-]+))\}\}")
_SHELL = ("/bin/sh", "-c")
_DEFAULTS = {
    field.name: field.default_factory()
    if field.default_factory is not msgspec.NODEFAULT
    else field.default
    for field in msgspec.structs.fields(ServiceSpec)
    if not field.required
}
_KEYS = {"argv": "command"}


class DeclaredService:
    """A service, or all its instances if they differ in nothing but their number."""

    def __init__(self, project: DeclaredProject, name: str, spec: ServiceSpec, count: int) -> None:
        self.project = project
        self.name = name
        self.spec = spec
        self.count = count
        self._taken: set[str] = set()

    @property
    def argv(self) -> list[str]:
        return redact_arguments(self.resolved(word) for word in self.spec.argv)

    @property
    def shell_line(self) -> str | None:
        """The line of a service with `shell: true`."""
        return self.argv[2] if self.spec.argv[:2] == _SHELL and len(self.spec.argv) == 3 else None

    @property
    def env(self) -> dict[str, str | None]:
        """Its variables, with its ports. None stands for a secret, which no file is told."""
        ports = {
            "PORT" if name == "port" else f"PORT_{name.upper().replace('-', '_')}": str(number)
            for name, number in self.ports.items()
        }
        return ports | {
            name: None if is_secret_name(name) or redact(text) != text else self.resolved(text)
            for name, text in self.spec.env.items()
        }

    @property
    def ports(self) -> dict[str, int]:
        return {name: self.project.port(self.name, name) for name in self.spec.ports}

    def resolved(self, text: str) -> str:
        """Return a text with the numbers of ports."""

        def number(found: re.Match[str]) -> str:
            return str(self.project.port(found[1] or self.name, found[2] or "port"))

        return _PLACEHOLDER.sub(number, text).replace("{{{{", "{{").replace("}}}}", "}}")

    def take(self, field: str) -> Any:
        """Return a field that this format can say."""
        self._taken.add(field)
        return getattr(self.spec, field)

    def is_said(self, field: str) -> bool:
        return bool(getattr(self.spec, field) != _DEFAULTS.get(field))

    def lose(self, key: str, instead: str) -> None:
        line = self.project.line_of(self.name, key)
        self.project.losses.append(Loss(line, f"{self.name}: {key}", instead))

    def lose_rest(self, table: Mapping[str, str]) -> None:
        """Tell everything that is said and was not taken, and a secret among the words of the
        command."""
        if self.argv != [self.resolved(word) for word in self.spec.argv]:
            self.lose("command", "it has a secret, which is hidden here: pass it in a variable")
        for field in _DEFAULTS:
            if field in self._taken or field in _IDENTITY:
                continue
            if field == "probes":
                for probe in self.questions:
                    self.lose(probe.name, advice(table, "health_check"))
            elif self.is_said(field):
                key = _KEYS.get(field, field)
                self.lose(key, advice(table, key))

    def lose_parts(self, field: str, *kept: str) -> None:
        """Tell those parts of a taken field that are said and not among the kept ones."""
        value = getattr(self.spec, field)
        for part in msgspec.structs.fields(type(value)):
            said = getattr(value, part.name)
            if part.name not in kept and said != part.default:
                self.lose(f"{field}.{part.name}", "this format has no such key")

    @property
    def questions(self) -> list[ProbeSpec]:
        """Its probes but those that follow from `notify`, and those that only look whether it
        lives."""
        is_told = (NotifyTarget, ProcessTarget)
        return [probe for probe in self.spec.probes if not isinstance(probe.target, is_told)]

    def probe(self, role: Role) -> ProbeSpec | None:
        return next((probe for probe in self.questions if role in probe.roles), None)

    def take_probes(self, roles: tuple[Role, ...], *targets: type) -> dict[Role, ProbeSpec]:
        """Return the probes of these roles that ask in one of these ways; others are lost."""
        self._taken.add("probes")
        found: dict[Role, ProbeSpec] = {}
        for probe in self.questions:
            fitting = [role for role in probe.roles if role in roles]
            if fitting and isinstance(probe.target, targets):
                found.update(dict.fromkeys(fitting, probe))
            else:
                self.lose(probe.name, f"this format does not ask by {probe.kind} for it")
        return found


class DeclaredProject:
    """What a configuration declares, the numbers of its ports, and what was lost."""

    def __init__(self, configuration: Configuration, lines: Mapping[tuple[str, ...], int]) -> None:
        self.name = os.path.basename(configuration.project) or configuration.project
        self.folder = os.path.dirname(configuration.path or "")
        self.groups = configuration.settings.groups
        self.losses: list[Loss] = []
        self._lines = lines
        self._ports: dict[tuple[str, str], int] = {}
        first = configuration.settings.port_range[0]
        self.services = self._grouped(configuration)
        for service in self.services:
            for name, number in service.spec.ports.items():
                if number == 0:
                    service.lose(
                        name if name == "port" else f"ports.{name}",
                        f"no port is leased there: it is {first} here",
                    )
                    number, first = first, first + 1
                self._ports[service.name, name] = number

    def _grouped(self, configuration: Configuration) -> list[DeclaredService]:
        """Instances that differ in nothing but their number are one service."""
        templates: dict[str, list[ServiceSpec]] = {}
        for spec in configuration.services.values():
            templates.setdefault(spec.template or spec.name, []).append(spec)
        found: list[DeclaredService] = []
        for name, specs in templates.items():
            plain = {
                msgspec.json.encode(msgspec.structs.replace(spec, name=name, index=None))
                for spec in specs
            }
            if len(plain) == 1:
                found.append(DeclaredService(self, name, specs[0], len(specs)))
            else:
                found += [DeclaredService(self, f"{name}-{spec.index}", spec, 1) for spec in specs]
        return found

    def port(self, service: str, name: str) -> int:
        return self._ports.get((service, name), 0)

    def line_of(self, service: str, key: str) -> int | None:
        path = ("services", service, *key.split("."))
        plain = ("services", re.sub(r"-\d+$", "", service), *key.split("."))
        for known in (path, path[:3], plain, plain[:3]):
            if known in self._lines:
                return self._lines[known]
        return None

    def named(self, name: str) -> DeclaredService | None:
        return next((one for one in self.services if one.name == name), None)

    def members(self, name: str) -> list[str]:
        """The services that a name in `depends_on` stands for."""
        named = [one.name for one in self.services if one.name == name]
        plain, _, index = name.partition("@")
        return named or [
            one.name
            for one in self.services
            if one.spec.template == plain and index in ("", str(one.spec.index))
        ]


class Exported(NamedTuple):
    """The files of an export by their names; one of them alone is shown as it is."""

    files: dict[str, str]


Writer = Callable[[DeclaredProject, "str | None"], Exported]


def one_probe(service: DeclaredService, *targets: type) -> ProbeSpec | None:
    """Return the probe of a format that knows only one: readiness before liveness."""
    found = service.take_probes(("readiness", "liveness"), *targets)
    ready, alive = found.get("readiness"), found.get("liveness")
    if ready is not None and alive is not None and ready is not alive:
        service.lose(alive.name, "this format asks one thing, and it asks for readiness")
    return ready or alive


def question_of(probe: ProbeSpec) -> str:
    """Return a probe as a shell's command, for formats that know nothing else."""
    import shlex

    match probe.target:
        case ExecTarget(argv=argv):
            return shlex.join(argv)
        case HttpTarget(url=url):
            return f"curl -fsS -o /dev/null {shlex.quote(url)}"
        case TcpTarget(host=host, port=port):
            return f"nc -z {host} {port}"
        case _:
            return "true"


def seconds(value: float) -> str:
    """Return a number of seconds without a needless fraction."""
    return f"{value:g}"
