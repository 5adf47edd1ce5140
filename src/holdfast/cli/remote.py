"""Another machine: `--host`, HOLDFAST_HOST and the verb `context`.

The line is run over there by the Holdfast of that machine, through ssh, which replaces this
process. So every verb works as it does there, also `logs -f` and `attach`, no port is opened, and
who may what is decided by ssh and by that machine. Knows nothing of what a verb does.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Verb
from holdfast.vocabulary.errors import Failed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_VERBS = frozenset({"context", "help", "completion", "version"})
"""Verbs that say something about this command line alone."""
_URL = re.compile(r"ssh://((?:[^/@\s]+@)?[^/@:\s]+)(?::(\d+))?(/.*)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PLACES = "$PATH:$HOME/.local/bin:/usr/local/bin"
"""Where a login without a shell's profile looks for the program, too."""


class Host(NamedTuple):
    """A folder on another machine."""

    login: str
    port: int | None
    folder: str

    @classmethod
    def of(cls, url: str) -> Host:
        found = re.fullmatch(
            r"ssh://((?:[^/@\s]+@)?[^/@:\s]+|[^/@\s]*\[[^]]+\])(?::(\d+))?(/.*)?", url
        )
        if found is None:
            raise UsageError(
                f"{url} names no host", "write ssh://USER@HOST/FOLDER, or a name of `context ls`"
            )
        login, port, folder = found.groups()
        # ssh would take it for an option.
        if login.startswith("-"):
            raise UsageError(f"{url} names no host", "a host does not begin with a dash")
        return cls(login, int(port) if port else None, folder or "/~")

    def line(self, words: list[str], *, has_terminal: bool) -> list[str]:
        """Return the words of ssh that run these words over there."""
        folder = self.folder
        if folder.startswith("/~"):
            there = "~" if folder in ("/~", "/~/") else f"~/{shlex.quote(folder[3:])}"
        else:
            there = shlex.quote(folder)
        # A context in use over there is none of this line's business.
        settings = f'PATH="{_PLACES}" HOLDFAST_HOST=local'
        script = f"export {settings}; cd {there} && exec holdfast {shlex.join(words)}"
        return [
            *("ssh", "-t" if has_terminal else "-T"),
            *(["-p", str(self.port)] if self.port else []),
            *(self.login, "--", script),
        ]


def host_of(given: str | None, environ: Mapping[str, str]) -> Host | None:
    """Return the host that is meant: the option, the variable, or the context in use."""
    contexts = read_contexts(environ)
    name = given or environ.get("HOLDFAST_HOST") or contexts.current
    if not name or name == "local":
        return None
    return Host.of(contexts.hosts.get(name, name))


def run_there(host: Host, words: list[str]) -> int:
    """Become ssh. Its exit code is that of the verb; 255 is ssh's own."""
    line = host.line(without_host(words), has_terminal=sys.stdin.isatty() and sys.stdout.isatty())
    sys.stdout.flush()
    try:
        os.execvp(line[0], line)
    except OSError as error:
        raise Failed(
            f"ssh cannot be run: {error.strerror}", "install it; on Debian: openssh-client"
        ) from None


def without_host(words: list[str]) -> list[str]:
    """Return the line without `--host`, which is only for this side."""
    own = words[: words.index("--")] if "--" in words else words
    kept: list[str] = []
    is_value = False
    for word in own:
        if is_value or word == "--host":
            is_value = not is_value
        elif not word.startswith("--host="):
            kept.append(word)
    return [*kept, *words[len(own) :]]


class Contexts(NamedTuple):
    """Names for hosts, and the one that is used where none is named."""

    current: str | None
    hosts: dict[str, str]


def contexts_file(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".config"
    )
    return os.path.join(base, "holdfast", "contexts.json")


def read_contexts(environ: Mapping[str, str]) -> Contexts:
    import json

    path = contexts_file(environ)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return Contexts(found.get("current"), {str(k): str(v) for k, v in found["hosts"].items()})
    except FileNotFoundError:
        return Contexts(None, {})
    except (OSError, ValueError, KeyError, AttributeError):
        raise Failed(f"{path} cannot be read", "mend or remove it") from None


def _write_contexts(environ: Mapping[str, str], contexts: Contexts) -> None:
    import json

    path = contexts_file(environ)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"current": contexts.current, "hosts": contexts.hosts}, file, indent=2)
    os.replace(temporary, path)


@Verb(
    "context",
    "Name other machines, and choose the one that verbs work on",
    operands="ls|add|use|rm [NAME] [HOST]",
    most=3,
    about=(
        "A context is a name for a folder on another machine, as ssh://USER@HOST/FOLDER. Every\n"
        "verb works on the one in use, on the one that --host or HOLDFAST_HOST names, or here.\n"
        "Holdfast has to be installed there; ssh asks for keys and passwords as always."
    ),
    examples=(
        ("holdfast context add live ssh://me@box/srv/shop", "give it a name"),
        ("holdfast --host live logs -f", "once"),
        ("holdfast context use live", "from now on"),
        ("holdfast context use local", "here again"),
    ),
)  # fmt: skip
def context(call: Call) -> int:
    action, *words = call.operands or ["ls"]
    current, hosts = read_contexts(call.environ)
    if action not in ("ls", "add", "use", "rm") or len(words) != _COUNTS[action]:
        raise UsageError(
            f"`holdfast context {' '.join(call.operands)}` is not complete",
            "holdfast context ls, add NAME HOST, use NAME, or rm NAME",
        )
    if action == "add":
        name, url = words
        if not _NAME.fullmatch(name) or name == "local":
            raise UsageError(f'"{name}" cannot be a name', "use letters, digits, - _ .")
        Host.of(url)
        hosts = {**hosts, name: url}
    elif action != "ls":
        (name,) = words
        if name not in hosts and not (action == "use" and name == "local"):
            raise UsageError(f'no context "{name}"', "`holdfast context ls` lists them")
        if action == "use":
            current = None if name == "local" else name
        else:
            hosts = {one: url for one, url in hosts.items() if one != name}
            current = None if current == name else current
    if action != "ls":
        _write_contexts(call.environ, Contexts(current, hosts))
    if call.is_json:
        call.emit({"current": current, "contexts": hosts})
        return 0
    rows = [["local", "this machine", "" if current else "in use"]]
    rows += [[name, url, "in use" if name == current else ""] for name, url in hosts.items()]
    call.say_table(("name", "host", ""), rows)
    return 0


_COUNTS = {"ls": 0, "add": 2, "use": 1, "rm": 1}
