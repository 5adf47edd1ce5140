"""Files as people have them: each is read, accepted, and nothing in it is dropped in silence.

The files in `corpus` were written for these tests. `every-option.*` has each option of the
format's own documentation.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.adapters.config.loading import load
from holdfast.migration.findings import Findings
from holdfast.migration.formats import FORMATS, read_file
from holdfast.migration.writing import yaml_of
from holdfast.vocabulary.errors import UsageError

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(
    path
    for path in CORPUS.rglob("*")
    if path.is_file() and (path.suffix != ".toml" or sys.version_info >= (3, 11))
)
ENVIRON = dict.fromkeys(
    ("HOME", "PATH", "USER", "HOSTNAME", "LOG_LEVEL", "DATADIR", "PORT", "DOMAIN"), "/tmp"
)
MODULES = {
    "package": "package_json", "process-compose": "process_compose",
}  # fmt: skip
ACCOUNTED: dict[str, frozenset[str]] = {
    # What is read as a whole, and what the format itself does not use.
    "supervisord": frozenset({"programs"}),
    "pm2": frozenset({"apps", "production", "user", "host", "ref", "conf", "tracing"}),
    "compose": frozenset({"version", "name", "services"}),
    "process-compose": frozenset({"version", "name", "processes"}),
    "package": frozenset({"name", "workspaces"}),
    "mprocs": frozenset({"procs"}),
    "pitchfork": frozenset({"daemons", "namespace", "settings"}),
    "systemd": frozenset(),
    "circus": frozenset({"include", "include_dir"}),
}


AS_IT_IS_ANYWAY = {
    "supervisord": {"autostart", "autorestart", "numprocs", "numprocs_start", "priority"}
    | {"stdout_logfile_maxbytes", "stderr_logfile_maxbytes", "stopwaitsecs"}
    | {"stdout_logfile_backups", "stderr_logfile_backups"},
    "pm2": {"autostart", "shutdown_with_message", "restart_delay", "uid", "time"},
    "compose": {"healthcheck"},
    "process-compose": {"condition", "host", "path"},
    "pitchfork": {"retry", "user"},
    "systemd": {"Type", "TimeoutSec", "TimeoutStopSec"},
}
"""Keys that say, somewhere in the corpus, what is so without them."""
VARIED = (".conf", ".ini", ".service", ".timer", ".toml", ".yaml", ".yml", ".json")
OWN = ("[supervisord]", "[circus]")


def name_of(path: Path) -> str:
    return str(path.relative_to(CORPUS))


def needless(kind: str) -> frozenset[str]:
    module = importlib.import_module(f"holdfast.migration.{MODULES.get(kind, kind)}")
    names = ("NEEDLESS", "_TOP_NEEDLESS", "_OWN_NEEDLESS", "_OURS")
    found = (frozenset(getattr(module, name, ())) for name in names)
    return frozenset().union(*found, ACCOUNTED[kind])


def outcome(found: Findings) -> tuple[object, list[tuple[str, str]]]:
    """What became of a file, without the lines."""
    services = [(service.name, service.keys) for service in found.services]
    return (services, found.top), sorted((loss.what, loss.instead) for loss in found.losses)


def test_there_are_sixty_files() -> None:
    """The corpus has every format that is known."""
    everything = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert len(everything) >= 60
    kinds = {path.relative_to(CORPUS).parts[0] for path in everything}
    assert len(kinds) == len(FORMATS)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_it_is_accepted(tmp_path: Path, path: Path) -> None:
    """Holdfast loads what a file becomes; each loss has its line and says what to do."""
    found = read_file(str(path))
    text = yaml_of([found], str(path.parent))
    for name in (".env", "a.env", "b.env"):
        (tmp_path / name).touch()
    (tmp_path / "holdfast.yaml").write_text(text)
    if found.services:
        load(str(tmp_path / "holdfast.yaml"), environ=ENVIRON)
    lines = path.read_text().count("\n") + 1
    for loss in found.losses:
        assert loss.instead
        assert loss.line is None or 1 <= loss.line <= lines
    for service in found.services:
        origin = path.name.replace(".timer", ".service")
        assert f"  # {origin}:{service.line}\n  {service.name}:" in text


@pytest.mark.parametrize("path", [path for path in FILES if "every" in path.name], ids=name_of)
def test_documented_options_have_advice(path: Path) -> None:
    """For what cannot be carried, the report says what to do instead of that very option."""
    losses = read_file(str(path)).losses
    assert [loss.what for loss in losses if "Holdfast has no such" in loss.instead] == []


def without_a_line(text: str, is_lost: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """The file without one of its entries, again and again; with the name of that entry. The
    entries of a section that is lost as a whole are lost with it."""
    lines = text.splitlines(keepends=True)
    heads = [place for place, line in enumerate(lines) if line.startswith("[")]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        if is_lost("".join(lines[:begin] + lines[end:])) and lines[begin].strip() not in OWN:
            continue
        for place in range(begin, end):
            if entry := re.match(r"([\w.]+)\s*[=:]", lines[place]):
                yield entry[1], "".join(lines[:place] + lines[place + 1 :])


def silent_keys(whole: Path, document: Any, value: Any, before: object) -> set[str]:
    """The keys within a value whose absence changes nothing. Those within a key that is lost as a
    whole are lost with it."""
    if isinstance(value, list):
        return set().union(*(silent_keys(whole, document, inner, before) for inner in value))
    silent: set[str] = set()
    for key in list(value) if isinstance(value, dict) else ():
        inner = value.pop(key)
        whole.write_text(json.dumps(document, indent=1))
        after = result_of(whole)
        value[key] = inner
        if after == before:
            silent.add(str(key))
        elif after is None or after[0] != before[0]:  # type: ignore[index]
            silent |= silent_keys(whole, document, inner, before)
    return silent


def result_of(path: Path) -> tuple[object, object] | None:
    try:
        return outcome(read_file(str(path)))
    except UsageError:
        return None


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix in VARIED], ids=name_of)
def test_nothing_is_dropped_in_silence(tmp_path: Path, path: Path) -> None:
    """Each key of a file is in the configuration, among the losses, or on the list of those that
    need no equivalent: without it, something is different."""
    kind = path.relative_to(CORPUS).parts[0]
    whole = tmp_path / path.name
    for other in path.parent.glob(f"{path.stem}.*"):
        shutil.copy(other, tmp_path)
    if path.suffix in (".yaml", ".yml", ".json"):
        whole.write_text(json.dumps(yaml.safe_load(path.read_text()), indent=1))
    before = result_of(whole)
    assert before is not None
    if path.suffix in (".yaml", ".yml", ".json"):
        document = yaml.safe_load(path.read_text())
        for key in [key for key in document if str(key).startswith("x-")]:
            del document[key]
        silent = silent_keys(whole, document, document, before)
    else:
        silent = set()

        def after(text: str) -> tuple[object, object] | None:
            whole.write_text(text)
            return result_of(whole)

        def is_lost(text: str) -> bool:
            result = after(text)
            return result is not None and result[0] == before[0]

        for key, text in without_a_line(path.read_text(), is_lost):
            if after(text) == before:
                silent.add(key)
    accepted = {name.rpartition(".")[2] for name in needless(kind)} | needless(kind)
    assert silent - accepted - AS_IT_IS_ANYWAY.get(kind, set()) == set()
