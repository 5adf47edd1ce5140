"""Handlers of commands about MCP servers: list them and their tools, call a tool, approve."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from holdfast.adapters.own_log import logger
from holdfast.app.context import Context
from holdfast.app.handlers.services import shown_lines
from holdfast.app.registry import handles
from holdfast.engine.mcp_servers.registry import OfferedTool
from holdfast.rules.mcp_servers import arguments, pins
from holdfast.rules.mcp_servers.finding import tokens_of
from holdfast.rules.mcp_servers.naming import is_among
from holdfast.rules.mcp_servers.pins import Held
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Done, Door
from holdfast.vocabulary.errors import (
    Failed,
    HoldfastError,
    NotFound,
    OutcomeUnknown,
    Refused,
    UsageError,
)
from holdfast.vocabulary.mcp_servers import (
    ApprovedTools,
    ApproveMcpTools,
    CallMcpTool,
    FinishMcpLogin,
    HeldTool,
    LoginMcpServer,
    LogoutMcpServer,
    McpCallResult,
    McpLoginInfo,
    McpServers,
    McpServersResult,
    McpToolInfo,
    McpTools,
    McpToolsResult,
    ReadMcpTool,
    ReportMcpServer,
    ServeMcpServers,
)
from holdfast.vocabulary.specs.mcp_servers import McpServerSpec

MOST_FOUND = 100
LAST_LINES = 5
_log = logger("mcp_servers")


@handles(McpServers)
def mcp_servers(context: Context, command: McpServers) -> McpServersResult:
    servers = context.mcp_servers
    names = _names(context, command.services)
    return McpServersResult(
        servers=[servers.describe(name) for name in names], gate=servers.work.is_present
    )


@handles(McpTools)
def mcp_tools(context: Context, command: McpTools, actor: Actor) -> McpToolsResult:
    registry = context.mcp_servers.registry
    names = _names(context, command.services)
    visible = {tool.name: tool for tool in registry.every(names) if _may_call(actor, tool.name)}
    if command.tool is not None:
        tool = registry.get(command.tool)
        found = [tool] if tool.name in visible else []
        if not found:
            raise NotFound(f"no tool {command.tool[:100]} is offered here", "search for another")
    elif command.query is not None:
        limit = min(max(1, command.limit), MOST_FOUND)
        found = registry.search(command.query, limit, set(visible))
    else:
        found = list(visible.values())
    definitions = [tool.definition for tool in visible.values()]
    return McpToolsResult(
        tools=[_told(tool, has_schema=command.schema) for tool in found],
        total=len(visible),
        held=[
            _held(context, server, name, held)
            for server in (names if command.held else ())
            for name, held in registry.catalogue(server).held.items()
        ],
        tokens=tokens_of(definitions),
    )


@handles(ReadMcpTool)
async def read_mcp_tool(context: Context, command: ReadMcpTool, actor: Actor) -> McpCallResult:
    tool = _tool_for(context, command.tool, actor)
    if not tool.only_reads:
        raise Refused(
            f"{tool.name} may change something, by its definition",
            "call it with call_mcp_tool (`call_tool`)",
        )
    return await _call(context, tool, command, actor)


@handles(CallMcpTool)
async def call_mcp_tool(context: Context, command: CallMcpTool, actor: Actor) -> McpCallResult:
    return await _call(context, _tool_for(context, command.tool, actor), command, actor)


@handles(ApproveMcpTools)
def approve_mcp_tools(context: Context, command: ApproveMcpTools) -> ApprovedTools:
    server = _server(context, command.service)
    approved = context.mcp_inbox.approve(server, command.tools)
    held = context.mcp_servers.registry.catalogue(server).held
    return ApprovedTools(server=server, approved=approved, held=list(held))


@handles(LoginMcpServer)
async def login_mcp_server(context: Context, command: LoginMcpServer) -> McpLoginInfo:
    server = _remote(context, command.service)
    url = urlsplit(command.callback)
    if url.scheme != "http" or url.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise UsageError("`callback` is an address of the user's own machine", "http://127.0.0.1:…")
    logins = context.mcp_servers.logins
    said = await logins.ask("login", server.name, url=server.url, callback=command.callback)
    return McpLoginInfo(server=server.name, address=said.reason)


@handles(FinishMcpLogin)
async def finish_mcp_login(context: Context, command: FinishMcpLogin) -> McpLoginInfo:
    server = _remote(context, command.service)
    said = await context.mcp_servers.logins.ask(
        "finish_login", server.name, address=command.address
    )
    context.mcp_servers.attach_again(server.name)
    login = said.login or {}
    return McpLoginInfo(
        server=server.name, scope=login.get("scope"), expires_at=login.get("expires_at")
    )


@handles(LogoutMcpServer)
async def logout_mcp_server(context: Context, command: LogoutMcpServer) -> McpLoginInfo:
    server = _remote(context, command.service)
    logins = context.mcp_servers.logins
    login = logins.of(server.name, server.url)
    if login is None:
        raise Failed(f"{server.name} has no login here", "nothing to do")
    try:
        said = await logins.ask("logout", server.name, login=login)
        is_revoked = bool(said.reason)
    except HoldfastError as error:
        _log.warning("the tokens of %s were not revoked: %s", server.name, error.message)
        is_revoked = False
    logins.forget(server.name)
    context.mcp_servers.attach_again(server.name)
    return McpLoginInfo(server=server.name, revoked=is_revoked)


def _server(context: Context, name: str) -> str:
    """Return the server of this name; raises an error for any other service."""
    found = _names(context, [name])
    if not found:
        raise UsageError(f"{name[:100]} is no MCP server", "`holdfast mcp servers` lists them")
    return found[0]


def _remote(context: Context, name: str) -> McpServerSpec:
    spec = context.mcp_servers.registry.specs[_server(context, name)]
    if spec.url is None:
        raise UsageError(f"{name} has no address, so nobody logs in there", "see mcp_servers: url")
    return spec


@handles(ServeMcpServers)
async def serve_mcp_servers(
    context: Context, command: ServeMcpServers
) -> AsyncGenerator[dict[str, Any], None]:
    async for item in context.mcp_servers.serve(command.attached, command.calls):
        yield item


@handles(ReportMcpServer)
async def report_mcp_server(context: Context, command: ReportMcpServer) -> Done:
    await context.mcp_servers.report(command, context.in_thread)
    return Done()


def _names(context: Context, wanted: list[str]) -> list[str]:
    """Return the servers that are meant; raises NotFound for a name that nothing has."""
    specs = context.mcp_servers.registry.specs
    if not wanted:
        return list(specs)
    for name in wanted:
        if name not in specs and name not in context.roster.runners:
            known = ", ".join(specs) or "none"
            raise NotFound(f'no MCP server "{name[:100]}"', f"known: {known}")
    return [name for name in specs if name in wanted]


def _may_call(actor: Actor, name: str) -> bool:
    """Return whether the limits of a token, and of who opened the session, allow a tool."""
    allowed = actor.scopes.tools is None or is_among(name, actor.scopes.tools)
    return allowed and (actor.behind is None or _may_call(actor.behind, name))


def _tool_for(context: Context, name: str, actor: Actor) -> OfferedTool:
    tool = context.mcp_servers.registry.get(name)
    if not _may_call(actor, tool.name):
        raise Refused(
            f"{tool.name} is refused: its token is limited to other tools", "ask an admin"
        )
    return tool


async def _call(
    context: Context, tool: OfferedTool, command: ReadMcpTool | CallMcpTool, actor: Actor
) -> McpCallResult:
    definition = tool.pinned.definition
    given = arguments.fitted(
        tool.name, definition.get("inputSchema") or {}, command.arguments, tool.signature
    )
    if command.call is not None and not 8 <= len(command.call) <= 200:
        raise UsageError("`call` is an id of 8 to 200 letters", "leave it out")
    named = command.call or os.urandom(12).hex()
    # Of the actor, too: nobody gets the answer to somebody else's call by naming it.
    identity = hashlib.sha256(f"{actor.identity}\0{named}".encode()).hexdigest()[:24]
    is_kept = command.keep and actor.door is Door.MCP
    try:
        answered, call = await context.mcp_servers.call(
            tool,
            given,
            identity,
            account=actor.account,
            owner=context.sessions.owner_for(actor),
            asked=command.call if is_kept else None,
            check=partial(_check_lockdown, context),
        )
    except OutcomeUnknown as error:
        raise await _with_last_lines(context, error) from None
    sent = call.sent
    return McpCallResult(
        call=identity,
        tool=tool.name,
        outcome="error" if answered.is_error else "done",
        result={} if is_kept else answered.result or {},
        run_id=sent.run_id if sent is not None else None,
        attempts=sent.sends if sent is not None else 1,
        bytes=answered.size,
        milliseconds=round(call.milliseconds, 2),
        pin=tool.pinned.pin[:16],
    )


def _check_lockdown(context: Context) -> None:
    """Raise Refused if a lockdown began while the call waited for its server."""
    if (lockdown := context.authority.lockdown.now) is not None:
        raise Refused(
            f"a lockdown is in force: {lockdown.reason}",
            "`holdfast unlock` ends it; nothing was sent",
        )


async def _with_last_lines(context: Context, error: HoldfastError) -> HoldfastError:
    """Add the last lines that a server printed before it ended."""
    runner = context.roster.runners.get(str(error.details.get("service")))
    if runner is None or not error.details.get("is_dead"):
        return error
    try:
        lines = await context.in_thread(shown_lines, context.logs, runner.name, runner.number)
    except OSError as failed:
        _log.warning("the last lines of %s cannot be read: %s", runner.name, failed)
        return error
    error.details["last_lines"] = lines[-LAST_LINES:]
    return error


def _told(tool: OfferedTool, *, has_schema: bool) -> McpToolInfo:
    definition = {"definition": tool.definition}
    return McpToolInfo(
        name=tool.name,
        server=tool.server,
        tool=tool.tool,
        signature=tool.signature,
        only_reads=tool.only_reads,
        may_repeat=tool.may_repeat,
        is_always_listed=tool.is_always,
        **(definition if has_schema else {}),
    )


def _held(context: Context, server: str, name: str, held: Held) -> HeldTool:
    before = context.mcp_servers.registry.catalogue(server).withdrawn.get(name)
    return HeldTool(
        name=f"{server}__{name}",
        server=server,
        change=held.change,
        warnings=list(held.warnings),
        difference=pins.difference(before.definition if before else None, held.definition),
    )
