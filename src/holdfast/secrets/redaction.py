"""What must never be told: names whose values are secrets, and texts that look like one.

The one place that knows; how secrets are found in texts is in `hiding`. Whoever shows an
environment, arguments, an address or a line of output passes it through here. Each process
learns the values that are configured secrets, and keeps them in its memory only. Standard
library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.secrets import finder as hiding
from holdfast.secrets.finder import Hider
from holdfast.system.patterns import pattern

HIDDEN = hiding.HIDDEN.decode()
_SHORTEST = 10
SECRET_NAME = pattern(
    r"secret|token|passw|pwd|api_?key|apikey|access_?key|private|credential|auth|cookie"
    r"|signature|salt|dsn|(^|_)key($|_)|database_url|connection|webhook",
    re.IGNORECASE,
)
_FLAG = pattern(r"-{1,2}[\w.-]+")
_SHOWN_VARIABLES = frozenset({
    "CI", "COLUMNS", "DEBUG", "DISPLAY", "HOME", "HOST", "HOSTNAME", "LANG", "LANGUAGE", "LINES",
    "LOGNAME", "NODE_ENV", "OLDPWD", "PATH", "PORT", "PWD", "PYTHONPATH", "PYTHONUNBUFFERED",
    "RAILS_ENV", "RUST_LOG", "SHELL", "SHLVL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
    "WAYLAND_DISPLAY",
})  # fmt: skip
_SHOWN_PREFIXES = ("LC_", "XDG_", "HOLDFAST_")


def is_secret_name(name: str) -> bool:
    return SECRET_NAME.search(name) is not None


class _Known:
    """What this process knows of configured secrets."""

    hider = Hider()


def learn(values: Iterable[str]) -> None:
    """From now on these are hidden, wherever they stand."""
    _Known.hider = Hider(values)


def hider() -> Hider:
    """Who hides in bytes; ask again for each reading, as it may have learnt more."""
    return _Known.hider


def redact(text: str) -> str:
    """The text without what has the shape of a secret, and without the values that are one."""
    data = text.encode("utf-8", "surrogatepass")
    shown = _Known.hider.replace(data)
    return text if shown is data else shown.decode("utf-8", "surrogatepass")


def redact_arguments(words: Iterable[str]) -> list[str]:
    """Words of a command: also the word behind a flag such as `--token` is hidden."""
    shown: list[str] = []
    is_next = False
    for word in words:
        shown.append(HIDDEN if is_next and not _FLAG.fullmatch(word) else redact(word))
        is_next = bool(_FLAG.fullmatch(word)) and is_secret_name(word.replace("-", "_"))
    return shown


def redact_value(value: Any) -> Any:
    """The same for a value of any shape; below a secret name everything is hidden."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {
                key: HIDDEN
                if isinstance(key, str) and isinstance(item, str) and is_secret_name(key)
                else redact_value(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [redact_value(item) for item in value]
        case _:
            return value


def redact_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The same for what an event tells; words too short to hide anything are let pass."""
    for name, value in fields.items():
        if isinstance(value, str):
            if len(value) >= _SHORTEST:
                fields[name] = redact(value)
        elif isinstance(value, (list, dict, tuple)):
            fields[name] = redact_value(value)
    return fields


def shown_address(url: str) -> str:
    """A URL as it may be told: scheme and host; path and query often hold the secret."""
    found = re.match(r"([a-z][a-z0-9+.-]*)://(?:[^/?#@]*@)?([^/?#@]*)", url, re.IGNORECASE)
    return f"{found[1]}://{found[2]}" if found else HIDDEN


def shown_environment(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Every name; the value only of variables that hold no secret, None for the others."""
    return {
        name: redact(value) if _is_shown(name) else None for name, value in sorted(environ.items())
    }


def _is_shown(name: str) -> bool:
    if name in _SHOWN_VARIABLES:
        return True
    return name.startswith(_SHOWN_PREFIXES) and not is_secret_name(name)
