"""The configuration: check, plan and reload, and whether an `up` may use the one it found.

`check` is the only verb that reads a configuration here; the others name it to the supervisor.
`up` imports this module before the keeper is started, so it stays light.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import screen
from holdfast.client.launch import import_path, make_private
from holdfast.system.places import (
    CONFIG_NAMES,
    folder_name,
    how_to_write,
    lock_is_held,
    states_root,
    unread_beside,
)
from holdfast.vocabulary.errors import ConfigError, NoDaemon, Refused, UnknownService

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.call import Call
    from holdfast.system.places import Places
    from holdfast.vocabulary.specs.settings import Configuration

CONFIG_VARIABLES = ("HOLDFAST_CONFIG", "MAGICTUNNEL_CONFIG")
ADMIN_TOKEN, SESSIONS = "admin.token", "sessions.json"
TRUSTED_NOTE = "trusted"
"""A file in the state folder, once a configuration was started from there."""
EXIT_CHANGES = 8
"""Exit code of `plan --exit-code` when a reload would do something."""
WIDEST_VALUE = 60
"""Longer lines of `config` do not move the places of all others to the right."""
MARKS = {
    "add": ("+", "green"),
    "remove": ("-", "red"),
    "restart": ("!", "yellow"),
    "change": ("~", "cyan"),
}


@Verb(
    "check",
    "Check the configuration; start nothing",
    about=(
        "Reads it as `holdfast up` would, in this environment: every mistake at once, with\n"
        "file, line and what to write instead. Needs no running Holdfast; exits with 7 if\n"
        "anything is wrong."
    ),
    examples=(
        ("holdfast check", "before a commit, or in CI"),
        ("holdfast check -c staging.yaml --json", "for another program"),
    ),
)
def check(call: Call) -> int:
    """The one verb that reads the configuration itself instead of asking the supervisor."""
    require_configuration(call, only_declared=True)
    note_unread(call, call.places.config)
    # Never from the project's own folder, which may have a module of the same name.
    sys.path[:] = import_path()
    from holdfast.adapters.config import load_project

    places = call.places
    project = load_project(places.config, call.environ, given_settings(call), cwd=places.project)
    names = list(project.services)
    if call.is_json:
        settings = project.settings
        call.emit(
            {
                "config": project.path,
                "services": names,
                "groups": {name: list(members) for name, members in settings.groups.items()},
                "workflows": list(settings.workflows),
                "commands": list(settings.commands),
                "warnings": list(project.warnings),
            }
        )
        return 0
    where = os.path.relpath(project.path) if project.path else "SUPERVISOR_TARGET_CMD"
    call.say(f"{where} is valid: {screen.counted(len(names), 'service')}")
    for name in names:
        call.say(f"  {name}")
    for warning in project.warnings:
        call.note(f"warning: {warning}")
    return 0


def assistants_of(places: Places) -> dict[str, Any]:
    """Return what the configuration offers to assistants; the defaults if it has a mistake, which
    the next `up` tells."""
    sys.path[:] = import_path()
    from holdfast.adapters.config import load_project
    from holdfast.vocabulary.specs.mcp import McpSpec

    try:
        offer = load_project(places.config, os.environ, cwd=places.project).settings.mcp
    except ConfigError:
        offer = McpSpec()
    return offer.offer()


@Verb(
    "config",
    "Show the configuration as Holdfast understands it",
    operands="[SERVICE…]",
    most=None,
    options=(Option("--defaults", "show the defaults of keys that are not written, too"),),
    commands=("config",),
    about=(
        "Every value with the place that it comes from: file and line, variable or option.\n"
        "Variables are replaced, short forms written out, secrets hidden. While Holdfast runs,\n"
        "the file is read with the variables of its `up`, as `reload` reads it; otherwise with\n"
        "those of this shell."
    ),
    examples=(
        ("holdfast config", "everything that is written"),
        ("holdfast config web --defaults", "one service, with what its other keys default to"),
    ),
)
def config(call: Call) -> int:
    defaults = bool(call.options.get("defaults"))
    result = None
    if not _is_named(call):
        try:
            result = call.ask("config", services=call.operands, defaults=defaults)
        except NoDaemon:
            pass
    if result is None:
        result = _resolved_here(call, with_defaults=defaults)
    note_unread(call, result["config"])
    if call.is_json:
        call.emit(result)
        return 0
    folder = call.places.project
    rows = _config_rows(result["values"], folder)
    width = min(max((len(text) for text, _ in rows), default=0), WIDEST_VALUE)
    for text, origin in rows:
        call.say(f"{text:<{width}}  {call.paint('# ' + origin, 'dim')}" if origin else text)
    return 0


def declared_here(call: Call) -> tuple[Configuration, dict[tuple[str, ...], int]]:
    """The configuration of this environment, and the line of each value in its own file; asks no
    supervisor."""
    require_configuration(call, only_declared=True)
    sys.path[:] = import_path()
    from holdfast.adapters.config import resolve_project

    places = call.places
    project, values = resolve_project(
        places.config, call.environ, given_settings(call), cwd=places.project, is_owner=True
    )
    lines: dict[tuple[str, ...], int] = {}
    for value in values:
        if value.line is not None and value.file in (None, project.path):
            path = tuple(map(str, value.path))
            for length in range(3, len(path) + 1):
                lines.setdefault(path[:length], value.line)
    return project, lines


def _resolved_here(call: Call, *, with_defaults: bool) -> dict[str, Any]:
    """The configuration as `up` would read it in this environment; asks no supervisor."""
    require_configuration(call, only_declared=True)
    sys.path[:] = import_path()
    from holdfast.adapters.config import resolve_project

    places = call.places
    project, values = resolve_project(
        places.config,
        call.environ,
        given_settings(call),
        cwd=places.project,
        with_defaults=with_defaults,
        is_owner=True,
    )
    names = set(call.operands)
    for name in names:
        if name not in {key.partition("@")[0] for key in project.services}:
            raise UnknownService.named(name, list(project.services))
    return {
        "config": project.path,
        "files": list(project.sources),
        "values": [
            {field: getattr(value, field) for field in value.__struct_fields__}
            for value in values
            if not names or (value.path[0] == "services" and value.path[1] in names)
        ],
    }


def _config_rows(values: list[dict[str, Any]], folder: str) -> list[tuple[str, str]]:
    """The lines of the configuration as YAML, each with the place that its value comes from."""
    rows: list[tuple[str, str]] = []
    above: list[str] = []
    for value in values:
        *parents, name = value["path"]
        shared = 0
        while shared < min(len(parents), len(above)) and parents[shared] == above[shared]:
            shared += 1
        rows += [
            (f"{'  ' * depth}{_yaml_word(parents[depth])}:", "")
            for depth in range(shared, len(parents))
        ]
        above = parents
        text = f"{'  ' * len(parents)}{_yaml_word(name)}: {_yaml_value(value['value'])}"
        rows.append((text, _place_of(value, folder)))
    return rows


def _place_of(value: dict[str, Any], folder: str) -> str:
    if value["source"] == "default":
        return "default"
    if value["source"] != "file":
        return str(value["given_by"])
    file = os.path.relpath(value["file"], folder)
    place = file if value["line"] is None else f"{file}:{value['line']}"
    return ", ".join([place, *(f"${{{name}}}" for name in value["variables"])])


def _yaml_word(text: str) -> str:
    import json
    import re

    is_word = re.fullmatch(r"[A-Za-z0-9_/.][\w ./@%+=-]*", text) and not text.endswith(" ")
    is_other = re.fullmatch(
        r"[0-9.+-][0-9.+_a-fox-]*|\.|true|false|yes|no|on|off|null", text.lower()
    )
    return text if is_word and not is_other else json.dumps(text, ensure_ascii=False)


def _yaml_value(value: Any) -> str:
    import json

    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _yaml_word(value)


@Verb(
    "plan",
    "Show what `holdfast reload` would do",
    operands="[SERVICE…]",
    most=None,
    options=(Option("--exit-code", "exit with 8 if it would do anything"),),
    commands=("plan",),
    about=(
        "Says which services would be added (+), removed (-), restarted (!) or changed while\n"
        "they run (~), and which fields differ; never values. Nothing is changed."
    ),
    examples=(
        ("holdfast plan", "before `holdfast reload`"),
        ("holdfast plan -c staging.yaml --exit-code", "what another file would change"),
    ),
)
def plan(call: Call) -> int:
    result = call.ask("plan", services=call.operands, **_config_field(call))
    note_unread(call, result["config"])
    if call.is_json:
        call.emit(result)
    else:
        for line in render(call, result["services"], result["settings"]):
            call.say(line)
        for name, words in (result.get("scaled") or {}).items():
            held = f"  {name}: {words}; `scale` holds until that number changes"
            call.say(call.paint(held, "dim"))
        if result["changes"]:
            call.say(call.paint("holdfast reload does this", "dim"))
    return EXIT_CHANGES if result["changes"] and call.options.get("exit_code") else 0


@Verb(
    "reload",
    "Apply the changed configuration, and touch nothing else",
    options=(
        Option("--dry-run", "only show what would be done, as `holdfast plan` does"),
        Option("--delete-logs", "of services that are no longer declared"),
        Option("--no-wait", "do not wait until each has stayed up for its start_seconds"),
    ),
    commands=("reload", "plan"),
    about=(
        "Does what `holdfast plan` says. What is unchanged keeps its process, what was\n"
        "stopped by hand stays stopped, and a file with a mistake in it changes nothing."
    ),
    examples=(
        ("holdfast reload", "after editing holdfast.yaml"),
        ("holdfast reload --dry-run", "look first"),
        ("holdfast reload -c other.yaml", "use another file from now on"),
    ),
)
def reload(call: Call) -> int:
    if call.options.get("dry_run"):
        return plan(call)
    wait = not call.options.get("no_wait")
    delete_logs = bool(call.options.get("delete_logs"))
    from holdfast.cli.services import describe

    result = call.ask("reload", wait=wait, delete_logs=delete_logs, **_config_field(call))
    note_unread(call, result["config"])
    failed = any(outcome["outcome"] == "failed" for outcome in result["services"].values())
    if call.is_json:
        call.emit(result)
        return int(failed)
    for line in render(call, result["plan"], result["settings"]):
        call.say(line)
    for name, outcome in result["services"].items():
        if outcome["outcome"] not in ("changed", "added"):
            for line in describe(call, name, outcome):
                call.say(line)
    return int(failed)


def render(call: Call, steps: dict[str, Any], settings: list[str]) -> list[str]:
    """A line for every service that would change, marked as in a diff, and a summary."""
    touched = {
        name: {**step, "action": "restart"} if _only_restarts_with_another(step) else step
        for name, step in steps.items()
        if step["action"] in MARKS or step.get("follows")
    }
    width = max((len(name) for name in touched), default=0)
    lines = []
    for name, step in touched.items():
        mark, colour = MARKS[step["action"]]
        detail = _detail(step)
        line = f"{mark} {name:<{width}}  {step['action']}"
        lines.append(call.paint(line, colour) + (f"  {detail}" if detail else ""))
    if settings:
        lines.append(call.paint("~ settings", "cyan") + f"  {', '.join(settings)}")
    for name, step in steps.items():
        if name not in touched and step.get("overrides"):
            lines.append(call.paint(f"  {name}: unchanged, {_overrides(step)}", "dim"))
    unchanged = len(steps) - len(touched)
    if not touched and not settings:
        lines.append(f"nothing to change ({screen.counted(unchanged, 'service')})")
    else:
        lines.append(call.paint(f"{screen.counted(unchanged, 'service')} unchanged", "dim"))
    return lines


def _only_restarts_with_another(step: dict[str, Any]) -> bool:
    return bool(step.get("follows")) and step["action"] not in MARKS


def _detail(step: dict[str, Any]) -> str:
    parts = [", ".join(step["fields"])] if step["fields"] else []
    if step.get("at_next_start"):
        parts.append("at its next start")
    if step.get("follows") and not (step["action"] == "restart" and step["fields"]):
        parts.append(f"restarts with {', '.join(step['follows'])}")
    if step.get("overrides"):
        parts.append(_overrides(step))
    return "; ".join(parts)


def _overrides(step: dict[str, Any]) -> str:
    others = [name for name, value in sorted(step["overrides"].items()) if value]
    words = "started with other " + " and ".join(others)
    return f"{words}, which ends" if step["action"] == "restart" else words


def _config_field(call: Call) -> dict[str, Any]:
    """The configuration that the caller named; the supervisor uses its own otherwise."""
    named = call.options.get("config") or call.environ.get("HOLDFAST_CONFIG")
    return {"config": os.path.realpath(os.path.join(call.folder, named))} if named else {}


def _is_named(call: Call) -> bool:
    """Return whether the caller said which configuration to use."""
    return bool(call.options.get("config") or any(map(call.environ.get, CONFIG_VARIABLES)))


def require_configuration(call: Call, *, only_declared: bool = False) -> None:
    """Raise ConfigError unless something is declared, or, without `only_declared`, unless an
    earlier Holdfast of this project had services."""
    places = call.places
    named = places.config or os.path.join(places.project, CONFIG_NAMES[0])
    if os.path.isdir(named):
        raise ConfigError(f"{named} is a folder", "a configuration is a file: rename the folder")
    if places.config:
        if os.path.exists(places.config) and not os.path.isfile(places.config):
            raise ConfigError(f"{places.config} is no regular file", "name one with -c")
        if not os.path.isfile(places.config):
            raise ConfigError(f"{places.config}: no such file", how_to_write(places.config))
        return
    if call.environ.get("SUPERVISOR_TARGET_CMD"):
        return
    if not only_declared and os.path.exists(os.path.join(places.state, "holdfast.db")):
        return
    raise ConfigError(
        f"no holdfast.yaml in {places.project} or above it",
        "`holdfast init` writes one; `holdfast run -- COMMAND` needs none",
    )


def note_unread(call: Call, config: str | None) -> None:
    """Say which of several configurations is read, unless the caller named one."""
    if _is_named(call) or not config:
        return
    if others := unread_beside(config):
        verb = "is" if len(others) == 1 else "are"
        call.note(f"{config} is read; {' and '.join(others)} beside it {verb} not")


def given_settings(call: Call) -> dict[str, str]:
    """The settings of the command line. They take precedence over the configuration's."""
    settings: dict[str, str] = {
        name: str(call.options[name])
        for name in ("log_level", "log_format", "port", "http_port")
        if name in call.options
    }
    if call.options.get("no_http"):
        settings["http"] = "false"
    if call.options.get("profile"):
        settings["profiles"] = ",".join(call.options["profile"])
    return settings


def check_trust(call: Call) -> None:
    """Ask before a configuration is started that somebody else may have written.

    A configuration decides which programs run as the user. One that lies inside the project of
    another Holdfast may have been written by an assistant or a service that works there. It is
    named, and before its first start the user is asked. Raises Refused if nobody agrees.
    """
    config = call.places.config
    if config is None or _is_named(call):
        return
    outer = _outer_project(call)
    if outer is None:
        return
    call.note(f"{config} is read ({_origin(config)}); it lies inside the project {outer}")
    if os.path.exists(os.path.join(call.places.state, TRUSTED_NOTE)):
        return
    if call.options.get("trust") or not _may_be_written_there(config, outer, call):
        _remember_trust(call)
        return
    why = f"{config} was written while Holdfast ran in {outer}: an assistant or a service may have"
    if _user_agrees(call, f"{why} written it"):
        _remember_trust(call)
        return
    raise Refused(
        f"{why} written it",
        "look at it; `holdfast up --trust` starts it, this once is enough",
        {"config": config, "inside": outer},
    )


def _remember_trust(call: Call) -> None:
    """Do not ask again. The history in the state folder is no sign of trust: `run` leaves one,
    and reads no configuration."""
    make_private(call.places.state)
    with open(os.path.join(call.places.state, TRUSTED_NOTE), "wb"):
        pass


def _outer_project(call: Call) -> str | None:
    """The nearest project around this one in which a Holdfast was ever started."""
    root, folder = states_root(call.environ), os.path.dirname(call.places.project)
    while not os.path.exists(os.path.join(root, folder_name(folder), ADMIN_TOKEN)):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _may_be_written_there(config: str, outer: str, call: Call) -> bool:
    """Return whether something that worked in the outer project could have changed the file:
    since that project's first start if it ever had sessions of assistants, else since its keeper
    started."""
    state = os.path.join(states_root(call.environ), folder_name(outer))
    changed = os.stat(config).st_ctime
    if os.path.exists(os.path.join(state, SESSIONS)):
        return changed >= _time_of(os.path.join(state, ADMIN_TOKEN))
    return lock_is_held(state) and changed >= _time_of(os.path.join(state, "keeper.json"))


def _time_of(path: str) -> float:
    """When a file was written; 0 if that cannot be read."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _origin(config: str) -> str:
    facts = os.stat(config)
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts.st_ctime))
    return f"of {_user(facts.st_uid)}, changed {moment}"


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _user_agrees(call: Call, what: str) -> bool:
    """Ask at the terminal, if there is one."""
    if call.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    call.note(what)
    sys.stderr.write("Start it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
