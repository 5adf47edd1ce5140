"""The tools of all MCP servers: which definitions are pinned, which are held, and who offers what.

Served from what is stored, never by asking the servers: a server that died or is not started yet
still has its tools. Knows nothing of processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.adapters.mcp_servers.catalogues import Catalogue, CatalogueStore
from holdfast.adapters.own_log import logger
from holdfast.rules.mcp_servers import naming, pins
from holdfast.rules.mcp_servers.finding import Finder, Searchable, signature, tokens_of
from holdfast.rules.mcp_servers.pins import Held, Pinned, Sighting
from holdfast.vocabulary.errors import HoldfastError, NotFound
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.mcp_servers import McpServerSpec, ToolHints

_log = logger("registry")


class OfferedTool(NamedTuple):
    """A tool that may be called, as far as the configuration is concerned."""

    name: str
    server: str
    tool: str
    pinned: Pinned
    only_reads: bool
    may_repeat: bool
    is_always: bool

    @property
    def signature(self) -> str:
        return signature(self.name, self.pinned.definition)

    @property
    def definition(self) -> dict[str, Any]:
        """Its definition under the name by which it is called here."""
        return {**self.pinned.definition, "name": self.name}


class Registry:
    """Everything that is known of the tools of the configured servers."""

    def __init__(
        self,
        store: CatalogueStore,
        on_sighting: Callable[[str, Sighting, Catalogue], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_sighting` is called when a server told other definitions than before."""
        self._store = store
        self._on_sighting = on_sighting
        self._clock = clock
        self.specs: dict[str, McpServerSpec] = {}
        self._catalogues: dict[str, Catalogue] = {}
        self._offered: dict[str, dict[str, OfferedTool]] = {}
        self._finder: Finder | None = None

    def use(self, specs: Mapping[str, McpServerSpec]) -> None:
        """Offer the tools of these servers."""
        self.specs = dict(specs)
        for name in specs:
            if name not in self._catalogues:
                self._catalogues[name] = self._store.load(name)
        self._forget_offers()

    def catalogue(self, server: str) -> Catalogue:
        return self._catalogues.get(server) or Catalogue()

    def is_known(self, server: str) -> bool:
        """Whether it has told its tools at any time."""
        return self.catalogue(server).seen_at > 0

    # What servers say

    def examine(self, server: str, listing: Mapping[str, Any]) -> tuple[Catalogue, Sighting]:
        """Return what becomes of a server's listing. Slow for long ones: call it in a thread."""
        spec, known = self.specs[server], self.catalogue(server)
        usable = []
        for definition in list(listing.get("tools") or ())[: pins.MOST_TOOLS]:
            why = pins.why_unusable(definition)
            if why is None:
                usable.append(definition)
            else:
                _log.warning("%s: a tool is left out: %s", server, why)
        handshake: Mapping[str, Any] = listing.get("handshake") or {}
        told = handshake.get("serverInfo")
        info = dict(told) if isinstance(told, dict) else {}
        approved = {**known.withdrawn, **known.tools}
        sighting = pins.sight(
            usable,
            approved,
            is_first=not known.seen_at,
            takes_first=spec.pins == "first",
            is_same_version=known.version is not None and info.get("version") == known.version,
            others=[name for name in self.specs if name != server],
        )
        capabilities = handshake.get("capabilities")
        catalogue = Catalogue(
            seen_at=self._clock(),
            server=info,
            protocol=str(handshake.get("protocolVersion") or ""),
            capabilities=capabilities if isinstance(capabilities, dict) else {},
            instructions=str(handshake.get("instructions") or "")[:4000],
            tools=sighting.pinned,
            withdrawn={
                name: pinned for name, pinned in approved.items() if name not in sighting.pinned
            },
            held={name: _rejected_before(known, name, one) for name, one in sighting.held.items()},
            prompts=[one for one in listing.get("prompts") or () if isinstance(one, dict)],
        )
        return catalogue, sighting

    def take(self, server: str, catalogue: Catalogue, sighting: Sighting) -> bool:
        """Use what `examine` returned; returns whether the offered tools are others now."""
        if server not in self.specs:
            return False
        before = self._catalogues.get(server) or Catalogue()
        self._catalogues[server] = catalogue
        is_same = (before.tools, before.held) == (catalogue.tools, catalogue.held)
        if not is_same or before.server != catalogue.server or not before.seen_at:
            self._save(server, catalogue)
        if is_same and before.seen_at:
            return False
        self._forget_offers()
        if before.held != catalogue.held or sighting.gone:
            self._on_sighting(server, sighting, catalogue)
        return before.tools != catalogue.tools

    def approve(self, server: str, wanted: Collection[str]) -> list[str]:
        """Accept held definitions, all or those named; returns their names."""
        known = self.catalogue(server)
        for name in wanted:
            if name not in known.held:
                listed = ", ".join(known.held) or "nothing"
                raise NotFound(f'nothing is held of "{name}"', f"held of {server}: {listed}")
        names = [name for name in known.held if not wanted or name in wanted]
        tools = {
            **known.tools,
            **{name: Pinned(known.held[name].pin, known.held[name].definition) for name in names},
        }
        held = {name: one for name, one in known.held.items() if name not in names}
        withdrawn = {name: one for name, one in known.withdrawn.items() if name not in names}
        self._replace(
            server,
            msgspec.structs.replace(known, tools=tools, held=held, withdrawn=withdrawn),
        )
        return names

    def reject(self, server: str) -> None:
        """Keep holding what is held now, and do not ask again about it."""
        known = self.catalogue(server)
        held = {
            name: msgspec.structs.replace(one, is_rejected=True) for name, one in known.held.items()
        }
        self._replace(server, msgspec.structs.replace(known, held=held))

    def _replace(self, server: str, catalogue: Catalogue) -> None:
        self._save(server, catalogue)
        self._catalogues[server] = catalogue
        self._forget_offers()

    def _save(self, server: str, catalogue: Catalogue) -> None:
        try:
            self._store.save(server, catalogue)
        except HoldfastError as error:
            _log.error("%s", error.message)

    def _forget_offers(self) -> None:
        self._offered.clear()
        self._finder = None
        tools = self.every(self.specs)
        definitions = [tool.definition for tool in tools]
        told = {
            "tokens": tokens_of(definitions),
            "tools": [
                {
                    "definition": tool.definition,
                    "only_reads": tool.only_reads,
                    "is_always_listed": tool.is_always,
                }
                for tool in tools
            ],
        }
        self._store.offer(told if self.specs else None)

    # What is offered

    def offered(self, server: str) -> dict[str, OfferedTool]:
        """Return the tools of a server that may be called, by their public names."""
        if server not in self._offered:
            self._offered[server] = self._offers_of(server)
        return self._offered[server]

    def _offers_of(self, server: str) -> dict[str, OfferedTool]:
        spec = self.specs.get(server)
        if spec is None:
            return {}
        tools = self.catalogue(server).tools
        found = {}
        for name, tool in naming.public_names(server, tools).items():
            if naming.is_allowed(tool, spec.allow, spec.deny):
                only_reads, may_repeat = _effects(
                    tools[tool].definition, spec.hints.get(tool) or ToolHints()
                )
                found[name] = OfferedTool(
                    name=name,
                    server=server,
                    tool=tool,
                    pinned=tools[tool],
                    only_reads=only_reads,
                    may_repeat=may_repeat,
                    is_always=naming.is_among(tool, spec.always),
                )
        return found

    def denied(self, server: str) -> int:
        return len(self.catalogue(server).tools) - len(self.offered(server))

    def every(self, servers: Iterable[str]) -> list[OfferedTool]:
        """Return the tools of these servers, in their order."""
        return [tool for server in servers for tool in self.offered(server).values()]

    def get(self, name: str) -> OfferedTool:
        """Return a tool by its public name; raises NotFound that says what to do."""
        server = naming.server_of(name)
        if server not in self.specs:
            known = ", ".join(self.specs) or "none"
            raise NotFound(f'no MCP server has a tool "{name[:100]}"', f"servers: {known}")
        offered = self.offered(server)
        if name in offered:
            return offered[name]
        by_tool = next((one for one in offered.values() if f"{server}__{one.tool}" == name), None)
        if by_tool is not None:
            return by_tool
        tool = name.partition("__")[2]
        if tool in self.catalogue(server).held:
            raise NotFound(
                f"the definition of {name} has changed, and is held until somebody approves it",
                f"`holdfast mcp tools --held {server}` shows it, `holdfast mcp approve {server}` "
                "accepts it",
            )
        guess = closest(name, list(offered))
        meant = f'; did you mean "{guess}"?' if guess else ""
        raise NotFound(f'{server} offers no tool "{tool[:100]}"{meant}', "search for the right one")

    def names_of(self, name: str) -> tuple[str, ...]:
        """Return all names of the tool that a caller means by this one."""
        try:
            tool = self.get(name)
        except NotFound:
            return (name,)
        return (name, tool.name, f"{tool.server}__{tool.tool}")

    def search(self, query: str, limit: int, among: set[str]) -> list[OfferedTool]:
        """Return the best matches of a query, the best first."""
        if self._finder is None:
            tools = self.every(self.specs)
            self._finder = Finder(
                [Searchable.of(tool.name, tool.server, tool.pinned.definition) for tool in tools]
            )
        found = self._finder.find(query, limit, among)
        return [self.get(name) for name in found]


def _rejected_before(known: Catalogue, name: str, held: Held) -> Held:
    before = known.held.get(name)
    if before is not None and before.pin == held.pin:
        return before
    return held


def _effects(definition: Mapping[str, Any], hints: ToolHints) -> tuple[bool, bool]:
    """Return whether a tool only reads, and whether it may be called twice."""
    said = definition.get("annotations")
    annotations: Mapping[str, Any] = said if isinstance(said, dict) else {}
    only_reads = hints.read_only
    if only_reads is None:
        only_reads = annotations.get("readOnlyHint") is True
    is_idempotent = hints.idempotent
    if is_idempotent is None:
        is_idempotent = annotations.get("idempotentHint") is True
    return only_reads, only_reads or is_idempotent
