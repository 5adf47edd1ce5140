"""Loads a whole configuration from a file, the environment and the command line.

The command line overrides the environment, the environment overrides the file, and the file
overrides the defaults. The result is a complete Configuration, or one ConfigError with all
problems.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters.config.composition import read_dotenv, with_other_files
from holdfast.adapters.config.document import (
    LARGEST_FILE,
    Node,
    Scalar,
    Table,
    TableEntry,
    parse,
    parse_json,
)
from holdfast.adapters.config.interpolation import split_command
from holdfast.adapters.config.keys.alerts import build_anchor
from holdfast.adapters.config.keys.backends import build_backends
from holdfast.adapters.config.keys.commands import build_command_settings
from holdfast.adapters.config.keys.dependencies import check_groups
from holdfast.adapters.config.keys.doors import build_door, build_http
from holdfast.adapters.config.keys.jobs import build_jobs
from holdfast.adapters.config.keys.mcp_servers import build_mcp_servers
from holdfast.adapters.config.keys.policies import build_request_settings
from holdfast.adapters.config.keys.root import ROOT, SUPERVISOR
from holdfast.adapters.config.keys.services import (
    TARGET_COMMAND,
    TARGET_FOLDER,
    ServiceBuilder,
    build_templates,
    check_profiles,
    set_count,
)
from holdfast.adapters.config.kinds.blocks import Values
from holdfast.adapters.config.kinds.kind import OverrideOrigin, Reading, ScalarKind
from holdfast.adapters.config.problems import COMMAND_LINE, Problem, make_error
from holdfast.adapters.config.sources import note_source, remedy_for, resolve_path
from holdfast.adapters.file_digests import read_content
from holdfast.rules.authority import tokens
from holdfast.rules.secrets import secret_values
from holdfast.system.places import how_to_write
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.names import OWN_NAMES, closest
from holdfast.vocabulary.specs.files import FilesSpec
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Configuration, Settings, Template

TARGET = "target"
CONFIG_VARIABLES = ("HOLDFAST_CONFIG", "MAGICTUNNEL_CONFIG")
SETTINGS: dict[str, tuple[str, ...]] = {
    "log_level": ("SUPERVISOR_LOG_LEVEL",),
    "log_format": ("SUPERVISOR_LOG_FORMAT", "HOLDFAST_LOG_STYLE"),
    "host": ("SUPERVISOR_HOST",),
    "port": ("SUPERVISOR_PORT",),
    "token": ("SUPERVISOR_TOKEN",),
    "tcp": ("HOLDFAST_TCP",),
    "http": ("HOLDFAST_HTTP",),
    "http_port": ("HOLDFAST_HTTP_PORT",),
    "runtime_mode": ("HOLDFAST_RUNTIME_MODE", "MAGICTUNNEL_RUNTIME_MODE"),
    "profiles": ("HOLDFAST_PROFILES",),
}
"""Settings that the command line may give, and the variables of the environment that do, too."""
_OWN_SETTINGS = ("log_level", "log_format", "runtime_mode")
"""Settings of the supervisor's own process, which are fields of the configuration itself."""


def load(
    path: str, *, environ: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> Configuration:
    """Read one configuration file; raises ConfigError with every problem in it."""
    path = os.path.abspath(path)
    return _load(path, environ, settings or {}, target=None, with_places=False)[0]


def load_project(
    places_config: str | None,
    environ: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
    *,
    cwd: str | None = None,
) -> Configuration:
    """Combine the file, the target of the environment and the settings of the command line.

    Without a file and without a target the configuration has no services.
    """
    return read_project(places_config, environ, settings or {}, cwd=cwd, with_places=False)[0]


def read_project(
    places_config: str | None,
    environ: Mapping[str, str],
    settings: Mapping[str, str],
    *,
    cwd: str | None,
    with_places: bool,
) -> tuple[Configuration, Reading]:
    """Return the configuration, and the reading that it was made from.

    `with_places`: every node knows its line, also those of a JSON file, which takes longer."""
    cwd = os.path.abspath(cwd or os.curdir)
    if places_config is None:
        named = next((environ[name] for name in CONFIG_VARIABLES if environ.get(name)), None)
        places_config = os.path.join(cwd, named) if named else None
    if places_config is None:
        return _without_file(environ, settings, cwd)
    has_target = bool(environ.get(TARGET_COMMAND, "").strip())
    target = cwd if has_target else None
    path = os.path.abspath(places_config)
    return _load(path, environ, settings, target=target, with_places=with_places)


def _without_file(
    environ: Mapping[str, str], settings: Mapping[str, str], cwd: str
) -> tuple[Configuration, Reading]:
    nowhere: Node = Table({}, 0, 0)
    reading = Reading("the environment", cwd, environ)
    target = cwd if environ.get(TARGET_COMMAND, "").strip() else None
    return _build(reading, Values("", nowhere), settings, target, path=None)


def _load(
    path: str,
    environ: Mapping[str, str],
    settings: Mapping[str, str],
    *,
    target: str | None,
    with_places: bool,
) -> tuple[Configuration, Reading]:
    try:
        data = read_content(path, LARGEST_FILE)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        hint = how_to_write(path) if is_missing else remedy_for(error)
        problem = Problem(path, None, None, "", None, error.strerror or str(error), hint)
        raise make_error([problem], path) from None
    if path.endswith(".json") and not with_places and (tree := parse_json(data)) is not None:
        try:
            return _interpret(tree, [], path, environ, settings, target, data)
        except ConfigError:
            pass  # `parse` reads it again below and knows the places of the problems.
    root, problems = parse(data, path)
    if problems and root is None:
        raise make_error(problems, path)
    return _interpret(root, problems, path, environ, settings, target, data)


def _interpret(
    root: Node | None,
    problems: list[Problem],
    path: str,
    environ: Mapping[str, str],
    settings: Mapping[str, str],
    target: str | None,
    data: bytes,
) -> tuple[Configuration, Reading]:
    reading = Reading(path, os.path.dirname(path), environ)
    note_source(reading.sources, path, data)
    reading.problems.extend(problems)
    read_dotenv(reading)
    values = _read_root(with_other_files(root, reading), reading)
    return _build(reading, values, settings, target, path=path)


def _read_root(root: Node | None, reading: Reading) -> Values:
    if root is None or (isinstance(root, Scalar) and root.is_null):
        return Values("", Table({}, 1, 1))
    if not isinstance(root, Table):
        reading.note(root, "", "the file is not a mapping", "begin with services:")
        return Values("", root)
    supervisor = root.entries.get("supervisor")
    if supervisor is None or not isinstance(supervisor.node, Table):
        return ROOT.read_entries(root, root.entries, "", reading)
    return _read_supervisor(root, supervisor.node, reading)


def _read_supervisor(root: Table, supervisor: Table, reading: Reading) -> Values:
    """Read the keys under `supervisor:`, and those at the top beside it.

    In a file of another name the rest of the top level belongs to another program.
    """
    values = SUPERVISOR.read(supervisor, "supervisor", reading)
    assert values is not None
    if not os.path.basename(reading.file).startswith(OWN_NAMES):
        return values
    beside: dict[str, TableEntry] = {}
    for name, entry in root.entries.items():
        if name == "supervisor":
            continue
        if name in values:
            message = f"stands here and under supervisor (line {values.at(name).line})"
            reading.note(entry.key, name, message, "keep one of them")
            continue
        beside[name] = entry
    for name, value in (top := ROOT.read_entries(root, beside, "", reading)).items():
        values[name] = value
        values.where[name] = top.where[name]
    return values


def _build(
    reading: Reading,
    values: Values,
    settings: Mapping[str, str],
    target: str | None,
    path: str | None,
) -> tuple[Configuration, Reading]:
    reading.root = values
    chosen = _choose_settings(reading, values, settings)
    door, http = build_door(reading, values, chosen), build_http(reading, values, chosen)
    written: dict[str, Values] = values.get("services", {})
    reading.profiles = chosen.get("profiles", ())
    check_profiles(reading, written)
    builder = ServiceBuilder(reading, values)
    services = builder.build(written)
    groups = check_groups(reading, values, written, services)
    servers, processes = build_mcp_servers(
        reading, values.get("mcp_servers", {}), builder, services
    )
    services |= processes
    if target is not None:
        services[TARGET] = _build_target(reading, builder, services.get(TARGET), target)
    fields = {
        **ROOT.fill(values),
        "door": door,
        "http": http,
        "groups": groups,
        "mcp_servers": servers,
        "backends": build_backends(reading, values.get("backends", {}), services),
        "jobs": build_jobs(reading, values.get("jobs", {}), builder),
        "templates": build_templates(reading, values, written),
        **build_command_settings(reading, values, services, {*written, *groups}),
        **build_request_settings(reading, values, chosen),
        "audit_anchor": build_anchor(reading, values),
    }
    if reading.problems:
        raise make_error(reading.problems, reading.file)
    files: FilesSpec = fields.get("files", FilesSpec())
    may_write = any(root.write for root in files.roots)
    fields["mcp"] = msgspec.structs.replace(fields.get("mcp", McpSpec()), changes_files=may_write)
    if reading.dotenv:
        hidden = secret_values(reading.dotenv)
        fields["secrets"] = tuple(dict.fromkeys((*fields.get("secrets", ()), *hidden)))
    configuration = Configuration(
        path=path,
        sources=reading.sources,
        project=reading.folder,
        warnings=tuple(dict.fromkeys(one.shown(reading.folder) for one in reading.warnings)),
        services=services,
        declares="services"
        if "services" in values or "mcp_servers" in values
        else "settings"
        if values
        else "nothing",
        settings=Settings(**fields),
        is_level_given="log_level" in chosen,
        log_file=_log_file(reading, values),
        **{name: chosen[name] for name in _OWN_SETTINGS if name in chosen},
    )
    return configuration, reading


def _log_file(reading: Reading, values: Values) -> str | None:
    written = values.get("log_file")
    return None if written is None else resolve_path(written, reading.folder, reading.environ)


def load_instances(
    template: Template,
    name: str,
    count: int,
    environ: Mapping[str, str],
    sources: dict[str, str] | None = None,
) -> dict[str, ServiceSpec]:
    """Build `count` instances of a service from what its configuration said when it was read.

    `sources` collects the files that are read again for it.
    """
    document = set_count(template.document, name, count).encode()
    reading = Reading(f"the declaration of {name}", template.folder, environ, sources)
    values = _read_root(parse_json(document) or parse(document, "instance.json")[0], reading)
    specs = ServiceBuilder(reading, values).build_each(values.get("services", {}))
    if reading.problems:
        raise make_error(reading.problems, reading.file)
    return specs


def _build_target(
    reading: Reading, builder: ServiceBuilder, configured: ServiceSpec | None, cwd: str
) -> ServiceSpec:
    """Build the target of the environment; a service of that name keeps its other keys."""
    environ = reading.environ
    argv: tuple[str, ...] = ()
    try:
        argv = tuple(split_command(environ[TARGET_COMMAND]))
    except ConfigError as error:
        problem = error.message.partition(": ")[0]
        reading.problems.append(_outside_problem(TARGET_COMMAND, problem, error.hint))
    folder = environ.get(TARGET_FOLDER)
    if configured is not None:
        fields: dict[str, Any] = {"argv": argv, "command_words": len(argv)}
        if folder:
            fields["working_dir"] = os.path.normpath(os.path.join(cwd, folder))
        return msgspec.structs.replace(configured, **fields)
    values = Values(TARGET, Table({}, 0, 0))
    values["working_dir"] = os.path.join(cwd, folder) if folder else cwd
    return builder.build_service(TARGET, values, argv, origin="target")


def _outside_problem(
    key: str, message: str, suggestion: str, where: str = "the environment"
) -> Problem:
    return Problem(where, None, None, key, None, message, suggestion)


def _choose_settings(
    reading: Reading, values: Values, settings: Mapping[str, str]
) -> dict[str, Any]:
    """Return each setting from the strongest of command line, environment and file."""
    given = {name.replace("-", "_"): value for name, value in settings.items()}
    for name in given:
        if name not in SETTINGS:
            guess = closest(name, list(SETTINGS))
            hint = f'did you mean "{guess}"?' if guess else f"known: {', '.join(SETTINGS)}"
            problem = _outside_problem(name, "unknown setting", hint, COMMAND_LINE)
            reading.problems.append(problem)
    chosen: dict[str, Any] = {}
    for name, variables in SETTINGS.items():
        if name in given:
            option = f"--{name.replace('_', '-')}"
            reading.overridden[name] = OverrideOrigin("command_line", option, given[name])
            _convert_setting(reading, chosen, name, given[name], name, COMMAND_LINE)
            continue
        variable = next((v for v in variables if reading.environ.get(v)), None)
        if variable is not None:
            text = reading.environ[variable]
            reading.overridden[name] = OverrideOrigin("environment", variable, text)
            _convert_setting(reading, chosen, name, text, variable, "the environment")
        elif name in values:
            chosen[name] = values[name]
    return chosen


def _convert_setting(
    reading: Reading, chosen: dict[str, Any], name: str, text: str, key: str, where: str
) -> None:
    if name == "token":
        chosen[name] = text
        if weakness := tokens.why_weak(text):
            reading.problems.append(_outside_problem(key, weakness, tokens.HINT, where))
        return
    if name == "profiles":
        chosen[name] = tuple(text.replace(",", " ").split())
        return
    kind = ROOT.keys[name].kind
    assert isinstance(kind, ScalarKind)
    try:
        chosen[name] = kind.convert(text)
    except ValueError as error:
        message, _, suggestion = str(error).partition("; ")
        reading.problems.append(Problem(where, None, None, key, text, message, suggestion))
