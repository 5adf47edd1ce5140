"""Which file a path means, and whether it may be opened at all. Pure: looks at no file.

A path never climbs (`..` is refused) and no link is followed when it is opened, so the names that
are judged here are the names that are opened. Denied names are matched without case, and as file
systems that drop parts of names would read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from fnmatch import translate
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from holdfast.rules.authority.path_scopes import shown
from holdfast.rules.text.globs import expression
from holdfast.vocabulary.errors import NotFound, Refused, UsageError

LONGEST_PATH = 4096
ENCODED = "uri:"
"""The prefix of a path that is percent-encoded, because its bytes are no text."""
REPOSITORIES = (".git", ".hg", ".svn", ".jj")
SECRETS = (
    *(".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks"),
    *("*.keystore", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg"),
    *(".aws", ".azure", ".kube", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".htpasswd", ".npmrc"),
    *(".pypirc", ".git-credentials", ".docker", "*.token", "*.tfstate", "*.tfstate.backup"),
)
HARMLESS = (
    *(".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "*.pub"),
    *("example.env", "sample.env"),
)
"""What looks like a secret and is none."""


class Root(NamedTuple):
    """A folder that is offered."""

    name: str
    path: str
    """Without links."""
    given: str
    """As configured."""
    is_writable: bool = False


class LocatedPath(NamedTuple):
    """A place below a root."""

    root: Root
    parts: tuple[str, ...]

    @property
    def relative(self) -> str:
        return "/".join(self.parts)

    @property
    def absolute(self) -> str:
        return f"{self.root.path.rstrip('/')}/{self.relative}" if self.parts else self.root.path


def locate(roots: Sequence[Root], path: str, root: str | None = None) -> LocatedPath:
    """Return what a path means; raises if it can mean nothing."""
    text = path
    if path.startswith(ENCODED):
        text = unquote_to_bytes(path[len(ENCODED) :]).decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise UsageError("a path contains no NUL character")
    if len(text.encode("utf-8", "surrogateescape")) > LONGEST_PATH:
        raise UsageError(f"this path is longer than {LONGEST_PATH} bytes")
    chosen, rest = _root_of(roots, text, root)
    parts = tuple(part for part in rest.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Refused(f'"{shown(path)}" contains ".."', "name the file by its own path")
    return LocatedPath(chosen, parts)


def _root_of(roots: Sequence[Root], text: str, name: str | None) -> tuple[Root, str]:
    if not roots:
        raise Refused("no root is configured", "`files: {roots: …}` offers folders")
    if name is not None:
        chosen = _named(roots, name)
        below = _below(chosen, text) if text.startswith("/") else text
        if below is None:
            raise Refused(f'"{shown(text)}" is not below the root {name}', f"it is {chosen.path}")
        return chosen, below
    if text.startswith("/"):
        within = [(root, rest) for root in roots if (rest := _below(root, text)) is not None]
        if not within:
            known = ", ".join(f"{root.name} ({root.path})" for root in roots)
            raise Refused(f'"{shown(text)}" is below no root', f"roots: {known}")
        return max(within, key=lambda found: len(found[0].path))
    prefix, colon, rest = text.partition(":")
    if colon and any(root.name == prefix for root in roots):
        return _named(roots, prefix), rest
    return roots[0], text


def _named(roots: Sequence[Root], name: str) -> Root:
    for root in roots:
        if root.name == name:
            return root
    raise NotFound(f'no root "{name}"', f"roots: {', '.join(root.name for root in roots)}")


def _below(root: Root, text: str) -> str | None:
    """Return the rest of an absolute path below a root."""
    for folder in (root.path, root.given):
        above = folder.rstrip("/") + "/"
        if f"{text}/".startswith(above):
            return text[len(above) :]
    return None


def told(roots: Sequence[Root], located: LocatedPath) -> str:
    """Return the path in a form that a caller can send back, and that can be written."""
    text = located.relative or "."
    is_default = located.root.name == roots[0].name
    prefix = text.partition(":")[0] if ":" in text else ""
    if not is_default or prefix == "uri" or any(root.name == prefix for root in roots):
        text = f"{located.root.name}:{text}"
    try:
        text.encode()
    except UnicodeEncodeError:
        return ENCODED + quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe="/:")
    return text


class Denials:
    """What may not be opened, and why."""

    def __init__(self, deny: Iterable[str] = (), never: Iterable[tuple[str, str]] = ()) -> None:
        given = [text for text in deny if not text.startswith("!")]
        lifted = [text[1:] for text in deny if text.startswith("!")]
        self.globs = (*REPOSITORIES, *SECRETS, *given)
        """For programs that must leave out the same things, such as ripgrep."""
        self._usual = _matcher(SECRETS)
        self._lifted = _matcher([*HARMLESS, *lifted])
        self._given = _matcher(given)
        self._more: Callable[[LocatedPath], str | None] | None = None
        self._never = [(f"{path.rstrip('/')}/".casefold(), why) for path, why in never]

    def and_also(self, more: Callable[[LocatedPath], str | None]) -> Denials:
        """Return these denials with more for one caller."""
        denials = copy(self)
        denials._more = more
        return denials

    def reason(self, located: LocatedPath) -> str | None:
        """Return why this may not be opened; None: it may."""
        if (why := self._usual_reason(located)) is not None or self._more is None:
            return why
        return self._more(located)

    def _usual_reason(self, located: LocatedPath) -> str | None:
        parts = [_plain(name) for name in located.parts]
        for name in parts:
            if name in REPOSITORIES:
                return f"{name} belongs to version control; the git commands look into it"
        top = located.root.path.rstrip("/")
        exact, plain = f"{located.absolute}/".casefold(), "/".join([top, *parts, ""]).casefold()
        for folder, why in self._never:
            if exact.startswith(folder) or plain.startswith(folder):
                return why
        for depth, name in enumerate(parts):
            path = "/" + "/".join(parts[: depth + 1])
            if self._given(name, path):
                return "the configuration denies it (files.deny)"
            if self._usual(name, path) and not self._lifted(name, path):
                return f'it may hold secrets; `files: {{deny: ["!{name}"]}}` admits it'
        return None


class _Match:
    def __init__(self, globs: Iterable[str]) -> None:
        listed = [text.casefold().rstrip("/") for text in globs]
        names = [translate(text) for text in listed if text and "/" not in text]
        paths = [expression(text) for text in listed if "/" in text]
        self._names = re.compile("|".join(names)) if names else None
        self._paths = [re.compile(text, re.DOTALL) for text in paths]

    def __call__(self, name: str, path: str) -> bool:
        if self._names is not None and self._names.match(name):
            return True
        return any(regex.fullmatch(path) for regex in self._paths)


def _matcher(globs: Iterable[str]) -> _Match:
    return _Match(list(globs))


def _plain(name: str) -> str:
    """Return a name as the least careful file system would take it."""
    if not name.isascii():
        import unicodedata

        name = unicodedata.normalize("NFKC", name)
        name = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return name.casefold().partition("::$")[0].rstrip(" .") or name
