"""The protocol's requests about resources, prompts and completion."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from holdfast.gate.mcp import prompts, resources
from holdfast.gate.mcp.answers import capped
from holdfast.gate.mcp.clients import COMPLETE, client_of
from holdfast.gate.mcp.wording import in_tools
from holdfast.vocabulary.errors import HoldfastError

MOST_VALUES = 100
_NOT_FOUND_BEFORE = -32002
"""What revisions before 2026-07-28 call a resource that is not there."""
Context = ServerRequestContext[Any, Any]


class Reading:
    """Answers out of what the line door tells the caller."""

    async def list_resources(self, ctx: Context, _: PaginatedRequestParams | None) -> Any:
        return {**COMPLETE, "resources": await told(resources.listed(client_of(ctx)))}

    async def list_templates(self, ctx: Context, _: PaginatedRequestParams | None) -> Any:
        return {**COMPLETE, "resourceTemplates": resources.templates()}

    async def read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        place = resources.place_of(uri)
        found = None if place is None else await told(resources.read(client_of(ctx), place))
        if found is None:
            is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = INVALID_PARAMS if is_modern else _NOT_FOUND_BEFORE
            raise MCPError(code, f"there is no resource {uri[:200]}", {"uri": uri})
        kind, text = found
        return {**COMPLETE, "contents": [{"uri": uri, "mimeType": kind, "text": text}]}

    async def list_prompts(self, ctx: Context, _: PaginatedRequestParams | None) -> Any:
        return {**COMPLETE, "prompts": [prompt.described() for prompt in prompts.TABLE]}

    async def get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> Any:
        prompt = prompts.PROMPTS.get(params.name)
        if prompt is None:
            known = ", ".join(prompts.PROMPTS)
            raise MCPError(INVALID_PARAMS, f'no prompt "{params.name}"; known: {known}')
        text = await told(prompts.text_of(client_of(ctx), prompt, dict(params.arguments or {})))
        content = {"type": "text", "text": capped(text)}
        messages = [{"role": "user", "content": content}]
        return {**COMPLETE, "description": prompt.about, "messages": messages}

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> Any:
        """Names of services, wherever one is asked for."""
        argument = params.argument
        wanted = "service" if isinstance(params.ref, PromptReference) else "name"
        names: list[str] = []
        if argument.name == wanted:
            names = list((await told(client_of(ctx).ask("status")))["services"])
        found = [name for name in names if name.startswith(argument.value)]
        told_now = found[:MOST_VALUES]
        more = {"total": len(found), "hasMore": len(found) > len(told_now)}
        return {**COMPLETE, "completion": {"values": told_now, **more}}


async def told(work: Any) -> Any:
    """What was asked; an error is one of the protocol here, because no model reads the answer."""
    try:
        return await work
    except HoldfastError as error:
        text = "; ".join(filter(None, (error.message, in_tools(error.hint))))
        raise MCPError(INVALID_PARAMS, text, {"code": error.code}) from None
