"""Whose configuration `holdfast up` has found, and whether to ask before it is used.

A configuration decides which programs run as the user. One that lies inside the project of another
Holdfast may have been written by what works there: an assistant, or a service. It is named, and
before its first start the user is asked. Everything else is started without a word.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.system.places import folder_name, lock_is_held, states_root
from holdfast.vocabulary.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.call import Call

EXPLICIT = ("HOLDFAST_CONFIG", "MAGICTUNNEL_CONFIG")
ADMIN_TOKEN, SESSIONS = "admin.token", "sessions.json"
NOTE = "trusted"
"""In the state folder, once a configuration was started from there."""


def check(call: Call) -> None:
    """Tell of a configuration inside another project; raises Refused for one that may be an
    assistant's, and that nobody vouches for."""
    config = call.places.config
    is_named = call.options.get("config") or any(map(call.environ.get, EXPLICIT))
    if config is None or is_named:
        return
    outer = _around(call)
    if outer is None:
        return
    call.note(f"{config} is read ({_written(config)}); it lies inside the project {outer}")
    if os.path.exists(os.path.join(call.places.state, NOTE)):
        return
    if call.options.get("trust") or not _may_be_an_assistants(config, outer, call):
        _remember(call)
        return
    why = f"{config} was written while Holdfast ran in {outer}: an assistant or a service may have"
    if _agrees(call, f"{why} written it"):
        _remember(call)
        return
    raise Refused(
        f"{why} written it",
        "look at it; `holdfast up --trust` starts it, this once is enough",
        {"config": config, "inside": outer},
    )


def _remember(call: Call) -> None:
    """Ask no more. The history of the folder would not do: `run` leaves one, and reads no
    configuration."""
    from holdfast.client.launch import make_private

    make_private(call.places.state)
    with open(os.path.join(call.places.state, NOTE), "wb"):
        pass


def _around(call: Call) -> str | None:
    """The nearest project around this one in which a Holdfast was ever started."""
    root, folder = states_root(call.environ), os.path.dirname(call.places.project)
    while not os.path.exists(os.path.join(root, folder_name(folder), ADMIN_TOKEN)):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _may_be_an_assistants(config: str, outer: str, call: Call) -> bool:
    """Whether it was changed since something worked in the outer project that could have done so:
    since its first start if assistants have had sessions there, else since its keeper's start."""
    state = os.path.join(states_root(call.environ), folder_name(outer))
    changed = os.stat(config).st_ctime
    if os.path.exists(os.path.join(state, SESSIONS)):
        return changed >= _time_of(os.path.join(state, ADMIN_TOKEN))
    return lock_is_held(state) and changed >= _time_of(os.path.join(state, "keeper.json"))


def _time_of(path: str) -> float:
    """When a file was written; one that cannot be asked was always there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _written(config: str) -> str:
    facts = os.stat(config)
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts.st_ctime))
    return f"of {_user(facts.st_uid)}, changed {moment}"


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _agrees(call: Call, what: str) -> bool:
    """Ask the user, if there is one to ask."""
    if call.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    call.note(what)
    sys.stderr.write("Start it? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
