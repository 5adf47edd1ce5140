"""What the relay answers itself: the handshake and the lists that are the same for every client.

So a client that starts before Holdfast, or before its gate has loaded, is not kept waiting and
does not give up on us. The answers are the gate's own, written down by
`gate/mcp/first_answers.py`. Which tools are offered, the gate tells; before that, the supervisor;
and where nothing runs, the configuration.
"""

from __future__ import annotations

import os

import holdfast
from holdfast.client.server_tools import listed, read_offered
from holdfast.system.lean_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]
    Offer = dict[str, Any]

PROTOCOL = "io.modelcontextprotocol/protocolVersion"
_SERVER = "io.modelcontextprotocol/serverInfo"
_FILE = os.path.join(os.path.dirname(holdfast.__file__), "schema", "mcp.json")


def is_modern(params: Message) -> bool:
    """Return whether a request is of the revisions without a handshake."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL in meta


class FirstAnswers:
    """Answers for one client."""

    def __init__(self, narrowed: Message, find_offer: Callable[[], Offer], state: str = "") -> None:
        """`narrowed` is what the client's command line wants of the tools; `find_offer` says what
        is offered as long as no gate has said it. `state` is the state folder, where the tools of
        other servers are written down."""
        self._state = state
        self._narrowed = narrowed
        self._find_offer = find_offer
        self._offer: Offer | None = None
        self._listed: list[str] | None = None
        """The tools that the client knows."""
        self._known: Message | None = None
        self._is_other_version = False

    def answer(self, method: str, params: Message) -> Message | None:
        """Return the result of a request; None if it is the gate's to answer."""
        if method == "ping" and not is_modern(params):
            return {}
        is_bridge = self._narrowed.get("server") is not None
        if is_bridge and method not in ("initialize", "server/discover"):
            return None
        if self._is_other_version or params.get("cursor") is not None:
            return None
        if is_modern(params):
            return self._modern(method, params)
        results = self._answers["results"]
        if method not in results:
            return None
        result = {**results[method]}
        if method == "initialize":
            wanted, known = params.get("protocolVersion"), self._answers["versions"]
            result["protocolVersion"] = wanted if wanted in known else known[-1]
            result["serverInfo"] = self._named(result["serverInfo"])
        return self._with_tools(method, result)

    def _modern(self, method: str, params: Message) -> Message | None:
        more = self._answers["modern_results"].get(method)
        if more is None or params["_meta"][PROTOCOL] not in self._answers["modern_versions"]:
            return None
        meta = {_SERVER: self._named(more["_meta"][_SERVER])}
        result = {**self._answers["results"].get(method, {}), **more, "_meta": meta}
        return self._with_tools(method, result)

    def _with_tools(self, method: str, result: Message) -> Message:
        if method == "tools/list":
            if self._offer is None:
                self._offer = self._find_offer()
            self._listed = self._names(self._offer)
            own = [one for one in result["tools"] if one["name"] in self._listed]
            result["tools"] = [*own, *self._of_servers(own)]
        return result

    def _of_servers(self, own: list[Message]) -> list[Message]:
        """Return the definitions of other servers' tools that are listed as well."""
        offer = self._offer or {}
        toolsets = offer.get("toolsets") or ()
        wanted = self._narrowed.get("toolsets")
        narrowed = {
            **offer,
            "read_only": offer.get("read_only") or self._narrowed.get("read_only"),
            "toolsets": [one for one in toolsets if wanted is None or one in wanted],
        }
        return listed(read_offered(self._state), own, narrowed)

    def learn(self, greeted: Message) -> bool:
        """Take what the gate says it offers; return whether the client knows other tools."""
        self._offer = greeted.get("offer") or self._offer
        self._is_other_version = greeted.get("version") != holdfast.__version__
        if self._listed is None or self._offer is None:
            return False
        return self._is_other_version or self._names(self._offer) != self._listed

    def _names(self, offer: Offer) -> list[str]:
        toolsets = [
            name
            for name in offer.get("toolsets") or ()
            if name in (self._narrowed.get("toolsets") or (name,))
        ]
        only_reading = offer.get("read_only") or self._narrowed.get("read_only")
        return [
            name
            for name, tool in self._answers["tools"].items()
            if tool["toolset"] in toolsets
            and (tool["setting"] is None or offer.get(tool["setting"]))
            and (tool["only_reads"] or not only_reading)
        ]

    @property
    def _answers(self) -> Message:
        if self._known is None:
            with open(_FILE, "rb") as file:
                known: Message = loads(file.read())
            self._known = known
        return self._known

    def _named(self, info: Message) -> Message:
        return {**info, "version": holdfast.__version__}
