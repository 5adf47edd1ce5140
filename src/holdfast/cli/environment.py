"""The environment of a service: `env` shows it, and `exec SERVICE -- COMMAND` runs a command in it.

The command replaces this process, so that terminal, standard input, signals and exit code are its
own. The supervisor tells the values to the owner alone.
"""

from __future__ import annotations

import errno
import os
import sys

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal.follow import learn_secrets
from holdfast.secrets.redaction import HIDDEN, redact_value
from holdfast.vocabulary.errors import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

OF_TERMINALS = ("TERM", "COLORTERM", "COLUMNS", "LINES", "TERM_PROGRAM", "NO_COLOR")
"""What describes the caller's terminal is the caller's."""
SOURCES = {
    "up": "the shell of `up` or `run`",
    "configuration": "the configuration",
    "port": "its port",
    "restart": "the last restart",
    "holdfast": "Holdfast",
}


@Verb(
    "env",
    "Show the environment that a service starts with",
    operands="SERVICE",
    least=1,
    most=1,
    options=(Option("--all", "also what it inherits from the shell of `up`"),),
    commands=("environment",),
    about=("Secrets are hidden. To see all of it, or to use it: `holdfast exec SERVICE -- env`."),
    examples=(
        ("holdfast env web", "what the configuration and Holdfast set"),
        ("holdfast env web --all", "with all that it inherits"),
    ),
)
def env(call: Call) -> int:
    result = call.ask("environment", service=call.operands[0], reveal=True)
    learn_secrets(call)
    for each in result["variables"]:
        hidden = redact_value({each["name"]: each["value"]})[each["name"]]
        each["value"] = None if hidden == HIDDEN else hidden
    if call.is_json:
        call.emit(result)
        return 0
    found = result["variables"]
    shown = [each for each in found if call.options.get("all") or each["source"] != "up"]
    rows = [
        (
            each["name"],
            SOURCES[each["source"]],
            "[hidden]" if each["value"] is None else each["value"],
        )
        for each in shown
    ]
    call.say(f"{result['service']} runs in {result['working_dir']}{_as_user(result)}")
    if rows:
        call.say_table(("VARIABLE", "FROM", "VALUE"), rows)
    if rest := len(found) - len(shown):
        text = f"and {rest} variables of the shell of `up`: --all shows them"
        call.say(call.paint(text, "dim"))
    return 0


def _as_user(result: dict[str, Any]) -> str:
    return f" as {result['user']}" if result["user"] else ""


def become(call: Call, service: str, words: list[str]) -> NoReturn:
    """Replace this process by a command with the folder, user and environment of a service."""
    result = call.ask("environment", service=service, reveal=True)
    call.close()
    environ = {each["name"]: each["value"] for each in result["variables"]}
    if sys.stdin.isatty():
        environ.update({name: call.environ[name] for name in OF_TERMINALS if name in call.environ})
    environ.update(call.options.get("env") or {})
    folder = os.path.normpath(
        os.path.join(result["working_dir"], call.options.get("workdir") or "")
    )
    environ["PWD"] = folder
    _become_user(service, result["user"])
    try:
        os.chdir(folder)
    except OSError as error:
        raise Failed(f"{folder}: {error.strerror}", "choose another folder with -w") from None
    if result["umask"] is not None:
        os.umask(result["umask"])
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(words[0], words, environ)
    except OSError as error:
        hint = f"its PATH is {environ.get('PATH', 'not set')}"
        reason = _why_not_run(words[0], environ.get("PATH", os.defpath), error)
        raise Failed(f"{service} cannot run {words[0]}: {reason}", hint) from None


def _why_not_run(program: str, path: str, error: OSError) -> str:
    """Return why a program cannot run. A folder of PATH that nobody may search makes the kernel say
    «permission denied» of a program that is nowhere."""
    if "/" not in program:
        folders = path.split(os.pathsep)
        if not any(os.path.lexists(os.path.join(folder, program)) for folder in folders):
            return os.strerror(errno.ENOENT)
    return error.strerror or str(error)


def _become_user(service: str, name: str | None) -> None:
    if name is None:
        return
    from holdfast.system.users import NoSuchUser, User

    try:
        user = User(name)
        if not user.is_own:
            user.become()
    except NoSuchUser as error:
        raise Failed(f"{service} runs as {name}: {error}") from None
    except PermissionError:
        raise Failed(f"{service} runs as {name}, and you may not", "use sudo") from None
