"""Other MCP servers behind Holdfast's own door: what can be asked of them, and what is answered."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.vocabulary.command import Command, Door, Effect, Permission, Result

AMONG_TOOLS = "__"
"""Stands between the name of a server and that of its tool."""


class McpServerInfo(Result, frozen=True, kw_only=True):
    """One server. Times are unix seconds, durations seconds."""

    name: str
    transport: str
    """stdio, http (run by Holdfast), or remote."""
    state: str
    """starting, running, backoff, failed, stopped; of a remote one: running or failed."""
    notes: list[str] = []
    """idle, needs login, `n tools held`, and other things beside its state."""
    tools: int = 0
    """How many it offers that are not held or denied."""
    held: int = 0
    """How many definitions wait for approval."""
    denied: int = 0
    calls: int = 0
    failed_calls: int = 0
    unknown_calls: int = 0
    """Calls of which nobody knows whether they were done."""
    under_way: int = 0
    p50_ms: float | None = None
    """The median duration of its last calls."""
    last_call: float | None = None
    version: str | None = None
    """What it calls its own version."""
    protocol: str | None = None
    reason: str | None = None
    instances: list[str] = []
    """The services that run it; with `scope: session` one for each session."""


class McpServersResult(Result, frozen=True, kw_only=True):
    servers: list[McpServerInfo]
    gate: bool = True
    """Whether a gate is there to speak with them."""


class McpToolInfo(Result, frozen=True, kw_only=True):
    """A tool as it may be called."""

    name: str
    server: str
    tool: str
    """Its name at the server itself."""
    signature: str
    """The name, the arguments and the first sentence of its description, on one line."""
    only_reads: bool = False
    may_repeat: bool = False
    """Whether it is called again by itself when its server died under the call."""
    definition: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Its whole definition; only if it was asked for."""
    is_always_listed: bool = False


class HeldTool(Result, frozen=True, kw_only=True):
    """A definition that is held back until somebody approves it."""

    name: str
    server: str
    change: str
    """new, changed or first."""
    warnings: list[str] = []
    """What is suspicious: invisible characters, a change without a new version, names of other
    servers' tools."""
    difference: list[str] = []
    """The lines of a unified diff of the definition."""


class McpToolsResult(Result, frozen=True, kw_only=True):
    tools: list[McpToolInfo]
    total: int
    """How many this caller could call; `tools` are those that were asked for, the best first."""
    held: list[HeldTool] = []
    tokens: int = 0
    """What all definitions together would take of a model's context, about."""


class McpCallResult(Result, frozen=True, kw_only=True):
    """The answer of a tool, as its server gave it."""

    call: str
    tool: str
    outcome: str
    """done, or error: the tool itself says that it failed."""
    result: dict[str, Any] = {}
    """The server's answer; left out if the caller has it already."""
    run_id: str | None = None
    milliseconds: float = 0.0
    attempts: int = 1
    bytes: int = 0
    audited = ("tool", "outcome", "run_id", "pin", "bytes", "milliseconds", "attempts")
    pin: str | None = None
    """The digest of the approved definition under which it was called."""


class ApprovedTools(Result, frozen=True, kw_only=True):
    server: str
    approved: list[str]
    held: list[str] = []
    """What is still held."""


class McpServers(Command, frozen=True, kw_only=True):
    """List the MCP servers of the configuration: state, tools, calls, and what is held.

    A server is started when it is needed and stopped when it is idle; its tools stay listed.
    """

    name = "mcp_servers"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = McpServersResult
    route = ("GET", "/api/mcp/servers")
    services: list[str] = []


class McpTools(Command, frozen=True, kw_only=True):
    """List the tools of MCP servers that the caller may call, or search them.

    `query` is what the tool does, in a few words: the best matches come first, at most `limit`.
    `tool` is the exact name of one. `schema` adds the whole definitions, and `held` the
    definitions that wait for approval.
    """

    name = "mcp_tools"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = McpToolsResult
    route = ("GET", "/api/mcp/tools")
    services: list[str] = []
    """The servers; empty: all."""
    query: str | None = None
    tool: str | None = None
    limit: int = 10
    schema: bool = False
    held: bool = False


class ReadMcpTool(Command, frozen=True, kw_only=True):
    """Call a tool of an MCP server that only reads, by the definition that was approved.

    Any other tool is refused: `call_mcp_tool` calls it. The server is started if need be. If it
    dies under the call, the call is repeated once.
    """

    name = "read_mcp_tool"
    permission = Permission.VIEW
    effect = Effect.READS
    reaches_out = True
    toolset = "servers"
    reads_content = True
    answers = McpCallResult
    route = ("POST", "/api/mcp/read")
    tool: str
    arguments: dict[str, Any] = {}
    call: str | None = None
    """An id of the caller's own, under which it asks again."""
    keep: bool = False
    """Leave the result out of the answer; the gate has it."""

    @property
    def service(self) -> str:
        """The server, by which tokens and policies decide about the call."""
        return self.tool.partition(AMONG_TOOLS)[0]


class CallMcpTool(Command, frozen=True, kw_only=True):
    """Call a tool of an MCP server, as `SERVER__TOOL`, with arguments as its schema says.

    The server is started if need be. If it dies under the call, a tool that only reads or is
    idempotent (by its approved definition) is called once more; of any other the answer is that
    nobody knows whether it was done. Nothing is ever sent twice otherwise.
    """

    name = "call_mcp_tool"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    toolset = "servers"
    repeatable = True
    answers = McpCallResult
    route = ("POST", "/api/mcp/call")
    tool: str
    arguments: dict[str, Any] = {}
    call: str | None = None
    """An id of the caller's own, under which it asks again."""
    keep: bool = False
    """Leave the result out of the answer; the gate has it."""

    def may_be_done_again(self) -> bool:
        """Only by its id is a call known to be the same."""
        return self.call is not None

    @property
    def service(self) -> str:
        """The server, by which tokens and policies decide about the call."""
        return self.tool.partition(AMONG_TOOLS)[0]


class ApproveMcpTools(Command, frozen=True, kw_only=True):
    """Accept the held definitions of a server's tools, all of them or those that are named.

    From now on they are offered, and called, as they are now. `approvals` lists what is held,
    and `mcp_tools` with `held` shows the differences.
    """

    name = "approve_mcp_tools"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    repeatable = True
    answers = ApprovedTools
    route = ("POST", "/api/mcp/approve")
    service: str
    tools: list[str] = []


class McpLoginInfo(Result, frozen=True, kw_only=True):
    """A login at a remote server. Its tokens are never shown."""

    server: str
    address: str | None = None
    """What the user opens in a browser."""
    scope: str | None = None
    expires_at: float | None = None
    """When the token runs out, which is then renewed, if the server allows that."""
    revoked: bool = False
    """Whether the server of the login took the tokens back."""


class LoginMcpServer(Command, frozen=True, kw_only=True):
    """Begin to log in at a remote MCP server: tells the address that the user opens in a browser.

    The browser ends at `callback`, on the user's own machine; `finish_mcp_login` takes the whole
    address. `holdfast mcp login NAME` does both.
    """

    name = "login_mcp_server"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = McpLoginInfo
    route = ("POST", "/api/mcp/login")
    service: str
    callback: str


class FinishMcpLogin(Command, frozen=True, kw_only=True):
    """Finish a login with the address that the browser was sent to at its end."""

    name = "finish_mcp_login"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = McpLoginInfo
    masked = frozenset({"address"})
    route = ("POST", "/api/mcp/login/finish")
    service: str
    address: str


class LogoutMcpServer(Command, frozen=True, kw_only=True):
    """Log out of a remote MCP server: its tokens are revoked, if it takes that, and forgotten."""

    name = "logout_mcp_server"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = McpLoginInfo
    route = ("POST", "/api/mcp/logout")
    service: str


class ServeMcpServers(Command, frozen=True, kw_only=True):
    """Speak with the MCP servers: the gate follows what is to be done, item by item.

    `attached` are the runs whose channel this gate has already, by service; `calls` are the calls
    that it has under way.
    """

    name = "serve_mcp_servers"
    permission = Permission.VIEW
    effect = Effect.READS
    streams = True
    doors = frozenset({Door.GATE})
    attached: dict[str, str] = {}
    calls: list[str] = []


class ReportMcpServer(Command, frozen=True, kw_only=True):
    """What the gate found out from an MCP server: its definitions, an answer, that it is gone."""

    name = "report_mcp_server"
    permission = Permission.VIEW
    effect = Effect.READS
    doors = frozenset({Door.GATE})
    repeatable = True
    service: str
    run_id: str | None = None
    kind: str
    """listed, called, not_sent, lost, late, probed, failed, asks, needs_login, login,
    login_step."""
    call: str | None = None
    listing: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    is_error: bool = False
    bytes: int = 0
    reason: str = ""
    login: dict[str, Any] | None = None
    """Tokens that were given or renewed."""
    masked = frozenset({"login"})
