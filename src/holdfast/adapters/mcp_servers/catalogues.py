"""What is known of each MCP server, on disk: one file of mode 0600 for each.

The definitions that were approved outlive every process, so tools are listed while no server runs,
and what a server says tomorrow is compared with what it said when somebody agreed to it. The files
are apart from the history, so that losing that loses no pin.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.rules.mcp_servers.pins import Held, Pinned
from holdfast.system.private_files import make_folder, read_plain, remove_torn, replace_file
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.readers import reader

FOLDER = "mcp_servers"
LARGEST = 32 * 1024 * 1024
_log = logger("catalogues")


class Catalogue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server has said of itself, and what of it was approved."""

    seen_at: float = 0.0
    """When it last told its definitions; 0: never."""
    server: dict[str, Any] = {}
    """Its name and version, by its own words."""
    protocol: str = ""
    capabilities: dict[str, Any] = {}
    instructions: str = ""
    tools: dict[str, Pinned] = {}
    """Approved definitions that the server tells now."""
    held: dict[str, Held] = {}
    withdrawn: dict[str, Pinned] = {}
    """Approved definitions that it does not tell any more; if it does again, they are approved."""
    prompts: list[dict[str, Any]] = []

    @property
    def version(self) -> str | None:
        version = self.server.get("version")
        return str(version) if version is not None else None


_decode = reader(Catalogue)


class CatalogueStore:
    """The files of all servers."""

    def __init__(self, state: str) -> None:
        self._folder = os.path.join(state, FOLDER)
        remove_torn(self._folder)

    def load(self, name: str) -> Catalogue:
        try:
            return _decode(read_plain(self._path(name), LARGEST))
        except FileNotFoundError:
            return Catalogue()
        except (OSError, msgspec.MsgspecError) as error:
            # Fail closed: an unreadable pin is none, and what comes is held until it is approved.
            _log.error("%s cannot be read: %s", self._path(name), error)
            return Catalogue(seen_at=1.0)

    def save(self, name: str, catalogue: Catalogue) -> None:
        try:
            make_folder(self._folder)
            replace_file(self._path(name), msgspec.json.encode(catalogue), is_synced=False)
        except OSError as error:
            message = f"what {name} offers cannot be stored: {error.strerror or error}"
            raise Failed(message, "is the disk full?") from error

    def offer(self, told: Mapping[str, Any] | None) -> None:
        """Write down what is offered, for relays that list tools before anything else runs. None:
        nothing is."""
        path = self._path("_offered")
        try:
            if told is not None:
                make_folder(self._folder)
                replace_file(path, msgspec.json.encode(told), is_synced=False)
            elif os.path.exists(path):
                os.unlink(path)
        except OSError as error:
            _log.error("what is offered cannot be written down: %s", error)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.json")
