"""The verb `import`: takes over the configuration of another supervisor."""

from __future__ import annotations

import os

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.system.places import CONFIG_NAMES
from holdfast.vocabulary.errors import Failed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
