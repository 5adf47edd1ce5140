"""Keeps a repository from running code, and a caller's words from being options. Pure.

A repository's configuration may name programs: hooks, filters, drivers, signers, helpers. Those
with fixed keys are always overridden. Those with free names are found in a listing of the
configuration, and overridden by name. Nothing that a caller says is taken as an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.vocabulary.errors import Refused, UsageError

Entry = tuple[str, str]
"""A key of git's configuration, and its value."""

FALSE = "false"
LITERAL = ":(top,literal)"
"""Marks a path that git takes literally."""
MERGE_AS_TEXT = "git merge-file --marker-size=%L %A %O %B"
"""What git itself does with files that have no driver."""

ALWAYS: tuple[Entry, ...] = (
    ("core.fsmonitor", FALSE),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
    ("core.askPass", ""),
    ("core.sshCommand", FALSE),
    ("core.alternateRefsCommand", ""),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("submodule.recurse", FALSE),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", FALSE),
    ("log.showSignature", FALSE),
    ("merge.verifySignatures", FALSE),
    ("blame.ignoreRevsFile", ""),
    ("mailmap.file", ""),
    ("mailmap.blob", ""),
    ("diff.orderFile", "/dev/null"),
    ("gc.auto", "0"),
    ("maintenance.auto", FALSE),
    ("rerere.enabled", FALSE),
    ("color.ui", FALSE),
    ("column.ui", "never"),
    ("core.quotePath", FALSE),
)
NO_HOOKS: tuple[Entry, ...] = (("core.hooksPath", "/dev/null"),)
NO_SIGNING: tuple[Entry, ...] = (
    ("commit.gpgSign", FALSE),
    ("tag.gpgSign", FALSE),
    ("tag.forceSignAnnotated", FALSE),
    ("gpg.program", FALSE),
    ("gpg.openpgp.program", FALSE),
    ("gpg.x509.program", FALSE),
    ("gpg.ssh.program", FALSE),
    ("gpg.ssh.defaultKeyCommand", ""),
)
_NAMED: dict[str, tuple[Entry, ...]] = {
    "filter": (("clean", ""), ("smudge", ""), ("process", ""), ("required", FALSE)),
    "merge": (("driver", MERGE_AS_TEXT), ("recursive", "")),
    "trailer": (("command", ""), ("cmd", "")),
    "protocol": (("allow", "never"),),
    "submodule": (("update", "none"),),
}
_HOOK: tuple[Entry, ...] = (("enabled", FALSE), ("command", ""))
USERS_OWN = frozenset(
    {
        *("user.name", "user.email", "user.useconfigonly", "author.name", "author.email"),
        *("committer.name", "committer.email", "core.excludesfile", "core.autocrlf", "core.eol"),
        *("core.safecrlf", "i18n.commitencoding", "i18n.logoutputencoding"),
    }
)
"""Keys of the user's own configuration that are used: they name no program."""
_UNSTEADY = re.compile(r"includeif\.(?:onbranch|hasconfig):", re.IGNORECASE)
_INCLUDE = re.compile(r"include(?:if\..*)?\.path", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(r"\s*-")
_REVISION = re.compile(r"[^\x00-\x20\x7f\\*?\[]+")
_NAME = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
_RANGE = re.compile(r"(?P<first>.*?)(?P<dots>\.\.\.?)(?P<second>.*)", re.DOTALL)
LONGEST_REVISION = 300


class RepositoryPermissions(NamedTuple):
    """What the configuration of this Holdfast lets a repository do."""

    hooks: bool = False
    programs: bool = False
    """Filters, merge drivers and signing."""


def parse_listing(data: bytes) -> tuple[list[Entry], list[str]]:
    """Parse the output of `git config --list -z --show-origin`: entries, and the files that they
    are in. Keys are in lower case except for the middle.
    """
    entries: list[Entry] = []
    origins: dict[str, None] = {}
    items = iter(data.decode("utf-8", "surrogateescape").split("\0"))
    for origin in items:
        if not origin:
            continue
        kind, _, path = origin.partition(":")
        if kind == "file":
            origins[path] = None
        key, _, value = next(items, "").partition("\n")
        entries.append((key, value))
    return entries, list(origins)


def has_includes(entries: Iterable[Entry]) -> bool:
    return any(_INCLUDE.fullmatch(key) for key, _ in entries)


def is_unsteady(entries: Iterable[Entry]) -> bool:
    """Return whether an include depends on something that a command itself changes."""
    return any(_UNSTEADY.match(key) for key, _ in entries)


def overrides(entries: Iterable[Entry], allowed: RepositoryPermissions) -> list[Entry]:
    """Return the configuration that overrides the repository's."""
    found: dict[str, str] = dict(ALWAYS)
    if not allowed.hooks:
        found.update(NO_HOOKS)
    if not allowed.programs:
        found.update(NO_SIGNING)
    for key, _ in entries:
        section, _, rest = key.partition(".")
        name, dot, _ = rest.rpartition(".")
        if not dot:
            continue  # an empty name is one, too
        if section == "hook" and not allowed.hooks:
            found.update({f"hook.{name}.{last}": value for last, value in _HOOK})
        elif section in _NAMED and not (allowed.programs and section in ("filter", "merge")):
            found.update({f"{section}.{name}.{last}": value for last, value in _NAMED[section]})
    return list(found.items())


def users_own(users: Iterable[Entry], repository: Iterable[Entry]) -> list[Entry]:
    """Return what the user's own configuration adds; the repository's wins, as with git."""
    given = {key for key, _ in repository}
    return [(key, value) for key, value in users if key in USERS_OWN and key not in given]


def filters_of(entries: Iterable[Entry]) -> list[str]:
    """Return the filters that the repository has configured."""
    names = {
        key.partition(".")[2].rpartition(".")[0]
        for key, value in entries
        if key.startswith("filter.") and key.count(".") > 1
        if value and not key.endswith(".required")
    }
    return sorted(names)


def environment(
    *,
    git_dir: str,
    work_tree: str,
    path: str,
    home: str,
    config: Sequence[Entry],
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the whole environment for git: nothing of ours leaks in, and git asks nothing."""
    found = {
        "PATH": path,
        "HOME": home,
        "LC_ALL": "C",
        "GIT_DIR": git_dir,
        "GIT_WORK_TREE": work_tree,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_EDITOR": ":",
        "GIT_SEQUENCE_EDITOR": ":",
        "GIT_PAGER": "cat",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_MERGE_AUTOEDIT": "no",
        "GIT_CONFIG_COUNT": str(len(config)),
        **(more or {}),
    }
    for number, (key, value) in enumerate(config):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def check_revision(text: str) -> str:
    """Check a revision: it must not be taken as an option, a path or a pattern."""
    if not text or len(text) > LONGEST_REVISION or _OPTION.match(text):
        raise Refused(f'"{text[:60]}" is no revision', "a commit, a branch, a tag, HEAD~2")
    if not _REVISION.fullmatch(text) or ":" in text.replace(":/", "", 1) or text.startswith(":"):
        raise Refused(f'"{text[:60]}" is no revision', "a commit, a branch, a tag, HEAD~2")
    return text


def split_range(text: str) -> tuple[str, str, str] | None:
    """Return both ends of `a..b` or `a...b`, and the dots; a missing end is HEAD."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first, second = found["first"] or "HEAD", found["second"] or "HEAD"
    return check_revision(first), found["dots"], check_revision(second)


def check_name(text: str, what: str) -> str:
    """Check a name for a branch or a tag, by git's own rules."""
    parts = text.split("/")
    is_wrong = (
        not text
        or len(text) > 200
        or _NAME.fullmatch(text) is None
        or text.startswith("-")
        or not text.isprintable()
        or text in ("@", "HEAD")
        or text.endswith((".", "/"))
        or any(piece in text for piece in ("..", "@{", "//"))
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    )
    if is_wrong:
        raise Refused(f'"{text[:60]}" cannot name a {what}', "letters, digits, -, _, . and /")
    return text


def literal_paths(paths: Sequence[str], denied: Sequence[str] = ()) -> list[str]:
    """Return paths of a work tree that git takes literally, and paths to leave out."""
    for path in paths:
        if path.startswith("/") or ".." in path.split("/"):
            raise UsageError(f'"{path[:60]}" is no path of a work tree')
    wanted = [f"{LITERAL}{path}" if path not in ("", ".") else ":(top)" for path in paths]
    left_out = [f":(top,exclude,literal){path}" for path in denied]
    if left_out and not wanted:
        wanted = [":(top)"]
    return [*wanted, *left_out]
