"""Which values of a configuration are secrets, to be redacted wherever they appear. Pure.

A value counts because of its name, or because the configuration lists it. A value that would hide
half of every log (a path, a short number, a word such as `enabled`) does not count. Next to a name
that reveals it, the finder redacts it all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.secrets.redaction import SHORTEST_VALUE
from holdfast.system.patterns import pattern
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.specs.probes import HttpTarget
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Settings

MOST_VALUES = 500
LONGEST_VALUE = 4096
_LEAST_LINE = 16
_NAME = pattern(
    r"secret|token|passw|(^|_)pwd$|api_?key|access_?key|private_?key|credential|(^|_)auth($|_)"
    r"|authorization|cookie|signature|(^|_)salt($|_)|dsn|(^|_)key($|_)|database_url|webhook"
    r"|connection_?str",
    re.IGNORECASE,
)
_ADDRESS = pattern(r"[a-z][a-z0-9+.-]*://(?:([^\s/@]*)@)?[^\s/?#@]*([^\s]*)", re.IGNORECASE)
_SECRET_ADDRESS = pattern(r"webhook|dsn|secret|token|credential|connection", re.IGNORECASE)
_FOLDER = "PWD"
"""The working directory of a shell. The name looks like a password's; the path may have blanks."""
_FLAG = pattern(r"[\w.]{1,60}")
_PATH = pattern(r"(?:/|\./|\.\./|~/)[^\s]*")
_WORDS = frozenset({
    *("enabled", "disabled", "required", "optional", "default", "development", "production"),
    *("staging", "localhost", "testing", "strict", "verify-full", "changeme"),
})  # fmt: skip


def may_read_values(actor: Actor) -> bool:
    """Return whether an actor gets the secret values, because it reads logs from their files and
    must redact them: the gate for itself, and the owner, who could read the configuration as well.
    Nobody else does, whatever their role."""
    if actor.door is Door.GATE:
        return True
    return actor.door is Door.CLI and actor.role is Role.OWNER


def values_of(
    specs: Iterable[ServiceSpec], environments: Iterable[Mapping[str, str]], settings: Settings
) -> list[str]:
    """Return every value to redact once, at most MOST_VALUES, those of the settings first."""
    specs, environments = list(specs), list(environments)
    given = [*environments, *(spec.env for spec in specs)]
    given += [command.env for command in settings.commands.values()]
    given += [template.service.env for template in settings.jobs.values()]
    found: dict[str, None] = {}
    for value in dict.fromkeys(_candidates(specs, given, settings)):
        for form in _forms(value):
            if SHORTEST_VALUE <= len(form) <= LONGEST_VALUE:
                found.setdefault(form)
        if len(found) >= MOST_VALUES:
            break
    return list(found)[:MOST_VALUES]


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """Return the values of these variables that are secrets by their name."""
    return [
        value
        for name, text in environ.items()
        if name != _FOLDER and _NAME.search(name)
        for value in _of_variable(name, text)
    ]


def _candidates(
    specs: Iterable[ServiceSpec], given: Iterable[Mapping[str, str]], settings: Settings
) -> Iterator[str]:
    if settings.door is not None and settings.door.token:
        yield settings.door.token
    for entry in settings.secrets:
        yield entry
        yield from (environ[entry] for environ in given if environ.get(entry))
    for target in settings.alerts:
        if target.webhook is not None:
            yield target.webhook
            yield from _of_address("webhook", target.webhook)
        yield from _of_headers(target.headers)
    for server in settings.mcp_servers.values():
        yield from _of_headers(server.headers)
    for environ in given:
        for name, value in environ.items():
            if name != _FOLDER and _NAME.search(name):
                yield from _of_variable(name, value)
    for spec in specs:
        yield from _of_arguments(spec.argv)
        for probe in spec.probes:
            if isinstance(probe.target, HttpTarget):
                yield from _of_headers(probe.target.headers)


def _of_arguments(words: Sequence[str]) -> Iterator[str]:
    """Yield the values of flags such as `--token`, as the next word or behind an equals sign."""
    for word, following in zip(words, (*words[1:], "-"), strict=False):
        if not word.startswith("-"):
            continue
        name, is_set, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not _FLAG.fullmatch(name) or not _NAME.search(name):
            continue
        if is_set:
            yield from _of_variable(name, value)
        elif not following.startswith("-"):
            yield from _of_variable(name, following)


def _of_variable(name: str, value: str) -> Iterator[str]:
    if _ADDRESS.fullmatch(value):
        yield from _of_address(name, value)
    elif not _is_no_secret(name, value):
        yield value


def _of_address(name: str, address: str) -> Iterator[str]:
    """Yield an address with a password, or one whose name says that it is a secret."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return
    _, _, password = (found[1] or "").partition(":")
    if password:
        from urllib.parse import unquote

        yield address
        yield from (password, unquote(password))
    elif _SECRET_ADDRESS.search(name):
        yield address
        if len(found[2]) >= _LEAST_LINE:
            yield found[2]


def _of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        if _NAME.search(name.replace("-", "_")):
            yield value
            _, _, credentials = value.partition(" ")
            if credentials:
                yield credentials


def _is_no_secret(name: str, value: str) -> bool:
    if _PATH.fullmatch(value) or value.lower() in _WORDS or value.lower() in name.lower():
        return True
    return value.isdigit() and len(value) < 10


def _forms(value: str) -> Iterator[str]:
    """Yield the value as it is, as in JSON, as in an address, and each of its longer lines."""
    from urllib.parse import quote

    value = value.strip()
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    if "\n" in value:
        yield from (line.strip() for line in value.splitlines() if len(line) >= _LEAST_LINE)
