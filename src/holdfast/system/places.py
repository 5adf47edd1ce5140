"""Where a project's Holdfast lives: project folder, state folder, sockets.

Owns every path that several parts must agree on. Creates nothing, starts nothing.
Standard library only.
"""

from __future__ import annotations

import os

from holdfast.system import lean_json
from holdfast.system.private_files import open_plain, read_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONFIG_NAMES = ("holdfast.yaml", "holdfast.yml", "holdfast.json")
OVERRIDE_NAMES = ("holdfast.override.yaml", "holdfast.override.yml")
"""Files beside a configuration of one of these names that are merged into it."""
DOTENV = ".env"
"""The file beside a configuration whose variables it may use."""
LONGEST_SOCKET_PATH = 100
OWN_LOG_BACKUPS = 3


class Places:
    """The folders of one Holdfast."""

    __slots__ = ("config", "project", "runtime", "state")

    def __init__(self, project: str, state: str, runtime: str, config: str | None) -> None:
        self.project = project
        self.state = state
        self.runtime = runtime
        self.config = config

    @property
    def line_socket(self) -> str:
        return os.path.join(self.runtime, "line.sock")

    @property
    def keeper_socket(self) -> str:
        return os.path.join(self.runtime, "keeper.sock")

    @property
    def relay_socket(self) -> str:
        """The socket by which `holdfast mcp` reaches the gate."""
        return os.path.join(self.runtime, "mcp.sock")

    @property
    def logs(self) -> str:
        return os.path.join(self.state, "logs")

    @property
    def own_log(self) -> str:
        """The log of Holdfast itself."""
        return os.path.join(self.state, "holdfast.log")


def how_to_write(config: str) -> str:
    """Return a hint for a user whose configuration is missing."""
    if not config.endswith((".yaml", ".yml")) or not os.path.isdir(os.path.dirname(config)):
        return "`holdfast init` writes a holdfast.yaml"
    from shlex import quote

    return f"`holdfast init -c {quote(config)}` writes one"


def generations(own_log: str) -> list[str]:
    """Return the current file and those that it was rotated to, the newest first."""
    # In the state folder may be a link to where `log_file:` says.
    file = os.path.realpath(own_log)
    return [file, *(f"{file}.{number + 1}" for number in range(OWN_LOG_BACKUPS))]


def find_config(start: str) -> str | None:
    """Return the configuration of this folder or of the nearest one above it."""
    folder = os.path.realpath(start)
    while True:
        for name in CONFIG_NAMES:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def unread_beside(config: str) -> list[str]:
    """Return the names of other configurations in the same folder, which are not read."""
    folder, name = os.path.split(config)
    others = [other for other in CONFIG_NAMES if os.path.isfile(os.path.join(folder, other))]
    return [other for other in others if other != name] if name in CONFIG_NAMES else []


def named_config(environ: Mapping[str, str]) -> str | None:
    """Return the configuration that the environment names."""
    return environ.get("HOLDFAST_CONFIG") or environ.get("MAGICTUNNEL_CONFIG") or None


def find_places(
    start: str,
    environ: Mapping[str, str],
    *,
    config: str | None = None,
    state_dir: str | None = None,
) -> Places:
    """Find the Holdfast that a command in this folder speaks to.

    If there is no configuration at or above the folder, the folder itself is the project, in which
    `holdfast run` has its services. A Holdfast that was started in a folder above is joined
    (`existing_project`), as git finds its repository.
    """
    config = os.path.realpath(os.path.join(start, config)) if config else find_config(start)
    if config:
        project = os.path.dirname(config)
    else:
        project = existing_project(start, environ) or os.path.realpath(start)
    state_dir = state_dir or environ.get("HOLDFAST_STATE_DIR")
    if state_dir:
        state = os.path.realpath(os.path.join(start, state_dir))
        return _as_started(Places(project, state, _runtime_beside(state, environ), config))
    state = os.path.join(states_root(environ), folder_name(project))
    runtime = os.path.join(runtime_root(environ), digest(project))
    return _as_started(Places(project, state, runtime, config))


def existing_project(start: str, environ: Mapping[str, str]) -> str | None:
    """Return the nearest folder at or above this one for which there is a state folder."""
    root = states_root(environ)
    folder = os.path.realpath(start)
    while True:
        if os.path.exists(os.path.join(root, folder_name(folder), "keeper.json")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def project_of(state: str) -> str:
    """Return the project of a state folder; empty if it is unknown."""
    return str(keeper_note(state).get("project") or "")


def keeper_note(state: str) -> dict[str, Any]:
    """Read the note of the keeper about itself; empty if there never was one."""
    try:
        note = lean_json.loads(read_plain(os.path.join(state, "keeper.json")))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def lock_is_held(state: str) -> bool:
    """Return whether a keeper, or a supervisor that turns into one, uses this state folder."""
    import fcntl

    try:
        fd = open_plain(os.path.join(state, "lock"), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _as_started(places: Places) -> Places:
    """Use the sockets where the keeper has them. It may have been started in another environment:
    cron, sudo and ssh often have no XDG_RUNTIME_DIR."""
    if not os.path.exists(places.line_socket):
        runtime = keeper_note(places.state).get("runtime")
        if isinstance(runtime, str) and os.path.exists(os.path.join(runtime, "line.sock")):
            places.runtime = runtime
    return places


def states_root(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") or os.path.expanduser("~")
    base = environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(base, "holdfast")


def runtime_root(environ: Mapping[str, str]) -> str:
    own = f"holdfast-{os.getuid()}"
    for name, folder in (("XDG_RUNTIME_DIR", "holdfast"), ("TMPDIR", own)):
        root = os.path.join(environ.get(name) or "/", folder)
        is_short = len(os.path.join(root, "0" * 12, "keeper.sock")) < LONGEST_SOCKET_PATH
        if environ.get(name) and is_short:
            return root
    return os.path.join("/tmp", own)


def folder_name(project: str) -> str:
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in os.path.basename(project))
    return f"{name or 'root'}-{digest(project)}"


def digest(path: str) -> str:
    """Return twelve digits for a path (FNV-1a). `hashlib` would cost the fast path 4 ms."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(path):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value >> 16:012x}"


def _runtime_beside(state: str, environ: Mapping[str, str]) -> str:
    beside = os.path.join(state, "run")
    if len(os.path.join(beside, "keeper.sock")) < LONGEST_SOCKET_PATH:
        return beside
    return os.path.join(runtime_root(environ), digest(state))
