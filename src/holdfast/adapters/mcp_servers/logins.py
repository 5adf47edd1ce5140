"""The tokens of logins at remote MCP servers, in one file of mode 0600.

A login belongs to a server and its address: at another address it is not used. Never shown, and
never passed to anybody but the gate.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from holdfast.adapters.mcp_servers.catalogues import FOLDER
from holdfast.adapters.own_log import logger
from holdfast.system.private_files import make_folder, read_plain, replace_file
from holdfast.vocabulary.errors import Failed

NAME = "_logins.json"
LARGEST = 4 * 1024 * 1024
_log = logger("logins")
Login = dict[str, Any]


class LoginStore:
    """The logins of all servers, by name."""

    def __init__(self, state: str) -> None:
        self._folder = os.path.join(state, FOLDER)
        self._logins: dict[str, Login] | None = None

    def of(self, server: str, url: str | None) -> Login | None:
        login = self._all().get(server)
        return login if login is not None and login.get("url") == url else None

    def set(self, server: str, login: Login | None) -> None:
        """Store the login of a server, or none."""
        logins = {name: one for name, one in self._all().items() if name != server}
        if login is not None:
            logins[server] = login
        try:
            make_folder(self._folder)
            replace_file(self._path, msgspec.json.encode(logins))
        except OSError as error:
            message = f"the login of {server} cannot be stored: {error.strerror or error}"
            raise Failed(message, "is the disk full?") from error
        self._logins = logins

    def _all(self) -> dict[str, Login]:
        if self._logins is None:
            try:
                self._logins = msgspec.json.decode(
                    read_plain(self._path, LARGEST), type=dict[str, dict[str, Any]]
                )
            except FileNotFoundError:
                self._logins = {}
            except (OSError, msgspec.MsgspecError) as error:
                _log.error("%s cannot be read: %s", self._path, error)
                self._logins = {}
        return self._logins

    @property
    def _path(self) -> str:
        return os.path.join(self._folder, NAME)
