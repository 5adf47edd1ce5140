"""The verbs `import` and `export`: from and to the configurations of other supervisors."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.system.places import CONFIG_NAMES
from holdfast.vocabulary.errors import Failed, UsageError

_SHORTEST = 5
"""A secret of fewer letters would hide innocent words."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.migration.exports.declared import DeclaredProject, Exported
    from holdfast.migration.findings import Findings


@Verb(
    "import",
    "Take over a Procfile, supervisord, pm2, compose or systemd configuration",
    operands="[FILE…]",
    most=None,
    options=(
        Option("--write", "write holdfast.yaml beside the first file, instead of printing it"),
        Option("--force", "with --write: replace a holdfast.yaml that is there"),
        Option("--check", "print only what cannot be carried over; exit code 1 if anything"),
    ),
    about=(
        "Reads Procfile (.env, .foreman), supervisord.conf, pm2's ecosystem file, circus.ini,\n"
        "process-compose.yaml, mprocs.yaml, pitchfork.toml, compose.yaml, systemd units with\n"
        "their timers, and package.json; without FILE, those in this folder. The format is\n"
        "recognised by the content. Nothing of the project is run. Each field that has no\n"
        "equivalent is listed with its line and what to do instead: nothing is dropped in\n"
        "silence."
    ),
    examples=(
        ("holdfast import", "show what would become of this folder"),
        ("holdfast import supervisord.conf --write", "write holdfast.yaml"),
        ("holdfast import ecosystem.config.js --check", "what would be lost?"),
    ),
)
def import_(call: Call) -> int:
    from holdfast.migration.formats import candidates, read_files
    from holdfast.migration.writing import yaml_of

    paths = [os.path.join(call.folder, name) for name in call.operands] or candidates(call.folder)
    if not paths:
        raise UsageError(
            "there is no file here that import knows by its name",
            "name it: holdfast import FILE; `holdfast init` looks at the project itself",
        )
    found = read_files(paths)
    folder = os.path.dirname(os.path.abspath(paths[0]))
    text = yaml_of(found, folder)
    services = [service.name for service in found[0].services]
    target = os.path.join(folder, CONFIG_NAMES[0])
    if call.options.get("write") and services:
        _write(target, text, is_forced=bool(call.options.get("force")))
    if call.is_json:
        call.emit(_described(found, text, services))
    else:
        if not (call.options.get("check") or call.options.get("write")):
            call.say(text.rstrip("\n"))
        _report(call, found)
        if not services:
            raise Failed("nothing here could become a service", "see the list above")
        if call.options.get("write"):
            call.say(f"wrote {target}: {', '.join(services)}")
            call.say("look at it, then: holdfast up")
    is_lossy = any(one.losses for one in found)
    return 1 if call.options.get("check") and is_lossy else 0


def _report(call: Call, found: list[Findings]) -> None:
    """Tell what was not carried over, on standard error."""
    for one in found:
        name = os.path.relpath(one.path, call.folder)
        for loss in sorted(one.losses, key=lambda loss: loss.line or 0):
            place = name if loss.line is None else f"{name}:{loss.line}"
            call.note(f"{place}: {loss.what}: {loss.instead}")
        if not one.losses:
            call.note(f"{name} ({one.format_name}): everything was carried over")


def _described(found: list[Findings], text: str, services: list[str]) -> dict[str, object]:
    return {
        "services": services,
        "config": text,
        "files": [{"path": one.path, "format": one.format_name} for one in found],
        "losses": [
            {"file": one.path, "line": loss.line, "what": loss.what, "instead": loss.instead}
            for one in found
            for loss in one.losses
        ],
    }


def _write(path: str, text: str, *, is_forced: bool) -> None:
    there = [
        name for name in CONFIG_NAMES if os.path.lexists(os.path.join(os.path.dirname(path), name))
    ]
    if there and not (is_forced and there == [CONFIG_NAMES[0]]):
        raise Failed(
            f"{os.path.join(os.path.dirname(path), there[0])} exists already",
            "`holdfast import … --write --force` replaces a holdfast.yaml",
        )
    _replace(path, text)


def _replace(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise Failed(f"{path} cannot be written: {error.strerror}") from None


@Verb(
    "export",
    "Write the configuration for another supervisor",
    operands="systemd|compose|kubernetes|nomad|procfile|supervisord",
    least=1,
    most=1,
    options=(
        Option("--image", "the image of every service, for containers", "IMAGE"),
        Option("-o --output", "write the files into this folder, instead of printing them", "DIR"),
        Option("--force", "with --output: replace files that are there"),
        Option("--check", "print only what cannot be said there; exit code 1 if anything"),
    ),
    about=(
        "Reads the configuration as `holdfast up` would, and starts nothing. What the other\n"
        "supervisor cannot say is listed with its line and what to do there instead. Secrets\n"
        "are never written: the list says where to put each of them."
    ),
    examples=(
        ("holdfast export systemd -o units", "a unit for each service"),
        ("holdfast export kubernetes --image registry/shop:1.2", "manifests"),
        ("holdfast export compose --check", "what would be lost?"),
    ),
)
def export(call: Call) -> int:
    from holdfast.cli.configuration import declared_here

    configuration, lines = declared_here(call)
    # Only here: both need the parser's libraries, which are found by now.
    from holdfast.migration.exports.declared import DeclaredProject
    from holdfast.migration.exports.formats import WRITERS
    from holdfast.secrets.redaction import is_secret_name, set_values

    writer = WRITERS.get(call.operands[0])
    if writer is None:
        raise UsageError(f'no format "{call.operands[0]}"', f"use {', '.join(WRITERS)}")
    variables = [*call.environ.items()]
    for service in configuration.services.values():
        variables += service.env.items()
    set_values(text for name, text in variables if is_secret_name(name) and len(text) > _SHORTEST)
    project = DeclaredProject(configuration, lines)
    exported = writer(project, call.options.get("image"))
    folder = call.options.get("output")
    if folder is not None and not call.options.get("check"):
        _write_files(call, call.path(folder), exported)
    if call.is_json:
        call.emit({"files": exported.files, "losses": _losses_of(project)})
    else:
        if folder is None and not call.options.get("check"):
            _show_files(call, exported)
        name = os.path.basename(configuration.path or "the configuration")
        for loss in sorted(project.losses, key=lambda loss: loss.line or 0):
            place = name if loss.line is None else f"{name}:{loss.line}"
            call.note(f"{place}: {loss.what}: {loss.instead}")
        if not project.losses:
            call.note(f"{name}: everything was carried over")
    return 1 if call.options.get("check") and project.losses else 0


def _losses_of(project: DeclaredProject) -> list[dict[str, object]]:
    return [
        {"line": loss.line, "what": loss.what, "instead": loss.instead} for loss in project.losses
    ]


def _show_files(call: Call, exported: Exported) -> None:
    for name, text in exported.files.items():
        if len(exported.files) > 1:
            call.say(f"# {name}")
        call.say(text if len(exported.files) > 1 else text.rstrip("\n"))


def _write_files(call: Call, folder: str, exported: Exported) -> None:
    os.makedirs(folder, exist_ok=True)
    for name in exported.files:
        path = os.path.join(folder, name)
        if os.path.lexists(path) and not call.options.get("force"):
            raise Failed(f"{path} exists already", "--force replaces it")
    for name, text in exported.files.items():
        _replace(os.path.join(folder, name), text)
        if not call.is_json:
            call.say(f"wrote {os.path.join(folder, name)}")
