"""What must never be told: names whose values are secrets, and texts that look like one.

The one place that knows. Whoever shows an environment, arguments, an address or a line of
output passes it through here. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "[hidden]"
_SHORTEST = 10
SECRET_NAME = re.compile(
    r"secret|token|passw|pwd|api_?key|apikey|access_?key|private|credential|auth|cookie"
    r"|signature|salt|dsn|(^|_)key($|_)|database_url|connection|webhook",
    re.IGNORECASE,
)
_NAME = (
    r"(?<![\w-])-{0,2}[\w.-]{0,60}?(?:(?:secret|token|passw(?:or)?d|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|credential|authorization|cookie|signature|dsn)(?:s|[_.-][\w.-]{0,30})?"
    r"|[_-]key|pwd)[\"']?"
)
_QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'"
_SCHEME = r"(?:bearer|basic|token)"
_BARE = r"[^\s,;&\"'}\])]+"
_EQUALS = r"\s{0,3}=\s{0,3}"
# Behind a colon there may be a sentence: a secret is quoted, or ends what is said.
_COLON = rf"\s{{0,3}}:\s{{0,3}}(?=[\"']|{_SCHEME}\s|{_BARE}\s*(?:\Z|[,;&}}\])\n]))"
_SHAPES = (
    r"(?P<keep_user>\b[a-z][a-z0-9+.-]{0,30}://[^\s/@:'\"]{0,200}):[^\s/@'\"]{1,400}(?=@)"
    r"|(?P<keep_scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    # What is hidden already stays as it is: texts pass through here more than once.
    rf"|(?P<keep_name>{_NAME}(?:{_EQUALS}|{_COLON}))(?!\[hidden\])"
    rf"(?:{_QUOTED}|{_SCHEME}\s+\S+|{_BARE})"
    r"|\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b"
    r"|\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/(?:services|workflows)/\S+"
    r"|discord(?:app)?\.com/api/webhooks/\S+"
    r"|\bsk-[A-Za-z0-9_-]{16,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bholdfast_[0-9a-f]{8,32}_[A-Za-z0-9_-]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"
    r"|-----BEGIN[A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END[A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)
# What every shape contains, in lower case: most texts have none of it and are let pass quickly.
_HINTS = (
    *("://", "bearer", "basic ", "secret", "token", "passw", "pwd", "key", "credential"),
    *("authorization", "cookie", "signature", "dsn", "akia", "asia", "agpa", "aida", "aroa"),
    *("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xox", "hooks.slack.com"),
    *("discord", "sk-", "k_live_", "k_test_", "aiza", "npm_", "pypi-", "hf_", "holdfast_", "eyj"),
)
_FLAG = re.compile(r"-{1,2}[\w.-]+")
_SHOWN_VARIABLES = frozenset({
    "CI", "COLUMNS", "DEBUG", "DISPLAY", "HOME", "HOST", "HOSTNAME", "LANG", "LANGUAGE", "LINES",
    "LOGNAME", "NODE_ENV", "PATH", "PORT", "PWD", "PYTHONPATH", "PYTHONUNBUFFERED", "RAILS_ENV",
    "RUST_LOG", "SHELL", "SHLVL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "WAYLAND_DISPLAY",
})  # fmt: skip
_SHOWN_PREFIXES = ("LC_", "XDG_", "HOLDFAST_")


def is_secret_name(name: str) -> bool:
    return SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """The text without what has the shape of a secret."""
    lower = text.lower()
    for hint in _HINTS:
        if hint in lower:
            return _shapes().sub(_hide, text)
    return text


@lru_cache(maxsize=1)
def _shapes() -> re.Pattern[str]:
    # Compiled when first needed: it takes milliseconds.
    return re.compile(_SHAPES, re.IGNORECASE | re.DOTALL)


def _hide(found: re.Match[str]) -> str:
    kept = found["keep_user"] or found["keep_scheme"] or found["keep_name"] or ""
    return f"{kept}:{HIDDEN}" if found["keep_user"] is not None else kept + HIDDEN


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
