"""What is found in a foreign file: services in our own words, and what could not be carried.

Each reader of a format returns one `Findings`. A key of the foreign file ends up in exactly one of
three places: in a service, among the losses, or on the reader's list of keys that need no
equivalent because Holdfast does the same by itself.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.vocabulary.names import is_service_name

Rows = Mapping[str, tuple[str, Callable[[Any], Any]]]
"""By the key of the foreign file: ours, and what makes our value of theirs."""
_SHELL_SIGNS = re.compile(r"[|&;<>()`*?]|\$(?!\$)|^\s*\w+=|(?:^|\s)~")


class Loss(NamedTuple):
    """Something in the foreign file that the new configuration does not say."""

    line: int | None
    what: str
    instead: str
    """What to do about it."""


class MovedService(NamedTuple):
    """A service, its keys as in holdfast.yaml, and the line that it comes from."""

    name: str
    keys: dict[str, Any]
    line: int | None = None


class Findings:
    """What one file holds."""

    def __init__(self, format_name: str, path: str) -> None:
        self.format_name = format_name
        self.path = path
        self.services: list[MovedService] = []
        self.top: dict[str, Any] = {}
        """Keys at the top of the new file: groups and defaults."""
        self.losses: list[Loss] = []

    def add(self, name: str, keys: dict[str, Any], line: int | None = None) -> str:
        """Add a service under a name that Holdfast accepts; return that name."""
        own = self.free_name(name)
        if own != name:
            self.lose(line, f'the name "{name}"', f'it is called "{own}" here')
        self.services.append(MovedService(own, keys, line or None))
        return own

    def free_name(self, name: str) -> str:
        """Return this name in our letters, with a number behind it if it is taken."""
        plain = service_name(name)
        taken = {service.name for service in self.services}
        number, own = 2, plain
        while own in taken:
            own, number = f"{plain}-{number}", number + 1
        return own

    def lose(self, line: int | None, what: str, instead: str) -> None:
        self.losses.append(Loss(line or None, what, instead))

    def rename(self, names: Mapping[str, str]) -> None:
        """Give services other names, wherever they are named."""
        for place, service in enumerate(self.services):
            wanted = service.keys.get("depends_on")
            if isinstance(wanted, dict):
                wanted = {names.get(other, other): how for other, how in wanted.items()}
            elif isinstance(wanted, list):
                wanted = [names.get(other, other) for other in wanted]
            if wanted is not None:
                service.keys["depends_on"] = wanted
            name = names.get(service.name, service.name)
            if name != service.name:
                instead = f'another file has that name, so it is called "{name}" here'
                self.lose(service.line, f'the name "{service.name}"', instead)
            self.services[place] = service._replace(name=name)
        groups = self.top.get("groups", {})
        for group, members in groups.items():
            groups[group] = [names.get(member, member) for member in members]


def service_name(name: str) -> str:
    """Return the nearest name that a service may have."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.strip().lower()).strip("-._")[:63]
    return plain if is_service_name(plain) else f"app-{plain}".strip("-._")[:63]


def command_keys(line: str) -> dict[str, Any]:
    """Return `command`, and `shell` where the line needs one. Variables are left to the shell: the
    other program expanded them when the service started."""
    import shlex

    try:
        shlex.split(line)
        needs_shell = _SHELL_SIGNS.search(line) is not None
    except ValueError:
        needs_shell = True
    keys: dict[str, Any] = {"command": escaped(line)}
    if needs_shell:
        keys["shell"] = True
    return keys


def escaped(text: str) -> str:
    """Return a text in which Holdfast replaces no `${…}`."""
    return re.sub(r"\$(?=[${])", "$$", text)


def put(keys: dict[str, Any], path: str, value: Any) -> None:
    """Set a key that may lie within another, such as `stop.grace`."""
    *outer, last = path.split(".")
    for name in outer:
        keys = keys.setdefault(name, {})
    keys[last] = value


def carry(rows: Rows, key: str, value: Any, keys: dict[str, Any]) -> bool:
    """Carry a key over by the table of its format; returns whether it is in there."""
    if key not in rows:
        return False
    path, convert = rows[key]
    put(keys, path, convert(value))
    return True


def advice(table: Mapping[str, str], key: str) -> str:
    """Return what to do instead of a key. A `*` in the table stands for any letters."""
    if key in table:
        return table[key]
    for pattern, text in table.items():
        if fnmatch.fnmatchcase(key, pattern):
            return text
    return "Holdfast has no such key"


def text_of(value: Any) -> str:
    """Return a value as the text that a variable has."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def words_of(value: Any) -> list[str]:
    """Return the words of a command that is a list or a line."""
    import shlex

    if isinstance(value, list):
        return [str(word) for word in value]
    try:
        return shlex.split(str(value))
    except ValueError:
        return str(value).split()


def whole_seconds(value: Any) -> str:
    return f"{value}s"


def seconds(value: float) -> str:
    """Return a duration as holdfast.yaml has it."""
    if value >= 1 and float(value).is_integer():
        return f"{int(value)}s"
    return f"{round(value * 1000)}ms"
