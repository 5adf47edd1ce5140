"""What the official conformance suite calls by name: tools, resources, prompts of no other use.

Put around the handlers of the shipped server, so that its registry, its token layer and its
errors are under test, too. Whatever is no fixture goes to the shipped handler.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from holdfast.gate.mcp.call import COMPLETE
from holdfast.gate.mcp.server import McpServer

Context = Any
Work = Callable[[Context, Any], Awaitable[dict[str, Any]]]
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
_SECRET = b"of this process alone"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def answer(*content: dict[str, Any], is_error: bool = False) -> dict[str, Any]:
    return {**COMPLETE, "content": list(content), **({"isError": True} if is_error else {})}


def embedded(uri: str, kind: str, words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def plain(*content: dict[str, Any], is_error: bool = False) -> Work:
    async def work(ctx: Context, params: Any) -> dict[str, Any]:
        return answer(*content, is_error=is_error)

    return work


async def logging_tool(ctx: Context, params: Any) -> dict[str, Any]:
    for step in ("started", "processing", "completed"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            await ctx.session.send_log_message(
                "info", f"Tool execution {step}", related_request_id=ctx.request_id
            )
        await asyncio.sleep(0.05)
    return answer(text("Tool with logging executed successfully"))


async def progress_tool(ctx: Context, params: Any) -> dict[str, Any]:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.02)
    return answer(text("done"))


async def sampling_tool(ctx: Context, params: Any) -> dict[str, Any]:
    words = (params.arguments or {}).get("prompt", "")
    request = types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[
                types.SamplingMessage(
                    role="user", content=types.TextContent(type="text", text=words)
                )
            ],
            max_tokens=100,
        )
    )
    result = await ask(ctx, request, types.CreateMessageResult)
    return answer(text(f"LLM response: {getattr(result.content, 'text', '')}"))


def elicitation(message: str | None, properties: dict[str, Any], required: list[str]) -> Work:
    async def work(ctx: Context, params: Any) -> dict[str, Any]:
        words = message or (params.arguments or {}).get("message", "")
        schema = {"type": "object", "properties": properties, "required": required}
        request = types.ElicitRequest(
            params=types.ElicitRequestFormParams(message=words, requested_schema=schema)
        )
        result = await ask(ctx, request, types.ElicitResult)
        content = json.dumps(result.content or {})
        return answer(text(f"User response: action={result.action}, content={content}"))

    return work


async def ask(ctx: Context, request: Any, kind: Any) -> Any:
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(request, kind, metadata=metadata)


DEFAULTS = {
    "name": {"type": "string", "description": "User name", "default": "John Doe"},
    "age": {"type": "integer", "description": "User age", "default": 30},
    "score": {"type": "number", "description": "User score", "default": 95.5},
    "status": {
        "type": "string",
        "enum": ["active", "inactive", "pending"],
        "default": "active",
    },
    "verified": {"type": "boolean", "default": True},
}
_PRIORITIES = [{"const": word, "title": word.title()} for word in ("low", "medium", "high")]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": _PRIORITIES},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {
        "type": "array",
        "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
    },
    "titledMulti": {"type": "array", "items": {"anyOf": _PRIORITIES}},
}


def elicit(message: str, name: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    params = {"message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def sample(words: str) -> dict[str, Any]:
    message = {"role": "user", "content": text(words)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 50}}


ROOTS = {"method": "roots/list", "params": {}}


def signed(words: str) -> str:
    return f"{words}.{hashlib.sha256(_SECRET + words.encode()).hexdigest()}"


def check_state(state: str | None, words: str) -> None:
    if state != signed(words):
        raise MCPError(types.INVALID_PARAMS, "this request state is not ours")


def needed(requests: dict[str, Any], state: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
    return {**found, "requestState": state} if state else found


def given(params: Any) -> dict[str, Any]:
    return dict(params.input_responses or {})


def content_of(responses: dict[str, Any], key: str) -> dict[str, Any] | None:
    """What the user said, if it is an accepted form."""
    found: Any = responses.get(key)
    raw = found.model_dump(by_alias=True) if hasattr(found, "model_dump") else found
    if isinstance(raw, dict) and raw.get("action") == "accept":
        content = raw.get("content")
        return content if isinstance(content, dict) else None
    return None


def rounds(key: str, request: dict[str, Any], field: str, told: str) -> Work:
    """Ask once, then answer with what was said."""

    async def work(ctx: Context, params: Any) -> dict[str, Any]:
        content = content_of(given(params), key)
        if content is None or not isinstance(content.get(field), str):
            return needed({key: request})
        return answer(text(told.format(content[field])))

    return work


def until_given(requests: dict[str, Any], state: str | None, told: str) -> Work:
    async def work(ctx: Context, params: Any) -> dict[str, Any]:
        if not set(requests) <= set(given(params)):
            return needed(requests, signed(state) if state else None)
        if state:
            check_state(params.request_state, state)
        said = {key: str(value) for key, value in given(params).items() if key in requests}
        return answer(text(f"{told} {json.dumps(said)}"))

    return work


async def multi_round(ctx: Context, params: Any) -> dict[str, Any]:
    responses = given(params)
    if "step2" in responses:
        check_state(params.request_state, "two")
        return answer(text("both steps done"))
    if "step1" in responses:
        check_state(params.request_state, "one")
        question = elicit("Step 2: What is your favorite color?", "color")
        return needed({"step2": question}, signed("two"))
    return needed({"step1": elicit("Step 1: What is your name?", "name")}, signed("one"))


async def by_capability(ctx: Context, params: Any) -> dict[str, Any]:
    declared = ctx.session.client_capabilities
    requests = {}
    if declared is not None and declared.elicitation is not None:
        requests["user_name"] = elicit("What is your name?", "name")
    if declared is not None and declared.sampling is not None:
        requests["greeting"] = sample("Generate a greeting")
    missing = [key for key in requests if key not in given(params)]
    return needed(requests) if missing else answer(text("complete"))


async def missing_capability(ctx: Context, params: Any) -> dict[str, Any]:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        needs: Any = {"requiredCapabilities": {"sampling": {}}}
        code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
        raise MCPError(code, "sampling is needed", needs)
    return answer(text("it is declared"))


async def reconnection(ctx: Context, params: Any) -> dict[str, Any]:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    return answer(text("Reconnection test completed"))


RICH = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": RICH,
    "test_custom_headers": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}},
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}},
}
_NAME = elicit("What is your name?", "name")
TOOLS: dict[str, Work] = {
    "test_simple_text": plain(text("This is a simple text response for testing.")),
    "test_image_content": plain(image()),
    "test_audio_content": plain({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
    "test_embedded_resource": plain(embedded("test://embedded-resource", "text/plain", "within")),
    "test_multiple_content_types": plain(
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", '{"test": "data"}'),
    ),
    "test_error_handling": plain(text("This tool intentionally returns an error"), is_error=True),
    "test_tool_with_logging": logging_tool,
    "test_logging_tool": logging_tool,
    "test_tool_with_progress": progress_tool,
    "test_sampling": sampling_tool,
    "test_elicitation": elicitation(None, {"response": {"type": "string"}}, ["response"]),
    "test_elicitation_sep1034_defaults": elicitation("Please review", DEFAULTS, []),
    "test_elicitation_sep1330_enums": elicitation("Please select", ENUMS, []),
    "test_reconnection": reconnection,
    "json_schema_2020_12_tool": plain(text("ok")),
    "test_custom_headers": plain(text("ok")),
    "test_missing_capability": missing_capability,
    "test_streaming_elicitation": rounds("user_name", _NAME, "name", "Hello, {}!"),
    "test_input_required_result_elicitation": rounds("user_name", _NAME, "name", "Hello, {}!"),
    "test_input_required_result_sampling": until_given(
        {"capital_question": sample("What is the capital of France?")}, None, "it said"
    ),
    "test_input_required_result_list_roots": until_given(
        {"client_roots": ROOTS}, None, "the roots are"
    ),
    "test_input_required_result_request_state": until_given(
        {"confirm": elicit("Please confirm", "ok", "boolean")}, "confirm", "state-ok"
    ),
    "test_input_required_result_tampered_state": until_given(
        {"confirm": elicit("Please confirm", "ok", "boolean")}, "tampered", "state-ok"
    ),
    "test_input_required_result_multiple_inputs": until_given(
        {"user_name": _NAME, "greeting": sample("Generate a greeting"), "client_roots": ROOTS},
        "several",
        "all came:",
    ),
    "test_input_required_result_multi_round": multi_round,
    "test_input_required_result_capabilities": by_capability,
}
RESOURCES: dict[str, dict[str, str]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "The static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}
TEMPLATE = "test://template/{id}/data"
PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def prompt(params: Any) -> dict[str, Any]:
    given_now = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            content = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            words = ", ".join(f"{key}='{given_now.get(key)}'" for key in ("arg1", "arg2"))
            content = [text(f"Prompt with arguments: {words}")]
        case "test_prompt_with_embedded_resource":
            uri = given_now.get("resourceUri", "test://example")
            content = [embedded(uri, "text/plain", "Embedded."), text("Please process it.")]
        case "test_prompt_with_image":
            content = [image(), text("Please analyze the image above.")]
        case _:
            said = content_of(given(params), "user_context")
            if said is None:
                return needed({"user_context": elicit("What context?", "context")})
            content = [text(f"In this context: {said.get('context')}")]
    return {**COMPLETE, "messages": [{"role": "user", "content": one} for one in content]}


def install() -> None:
    """Let the gate's server have the fixtures; said before the gate begins."""
    shipped = McpServer.__init__

    def built(self: Any, *args: Any) -> None:
        shipped(self, *args)
        _surround(self.server)

    McpServer.__init__ = built  # type: ignore[assignment, method-assign]


def _surround(server: Server[Any]) -> None:
    def wrap(method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        entry = server.get_request_handler(method)
        assert entry is not None
        server.add_request_handler(method, entry.params_type, around(entry.handler))

    def more(key: str, added: list[dict[str, Any]]) -> Callable[..., Any]:
        def around(inner: Callable[..., Any]) -> Callable[..., Any]:
            async def handler(ctx: Context, params: Any) -> Any:
                found = await inner(ctx, params)
                return {**found, key: [*found[key], *added]}

            return handler

        return around

    def instead(pick: Callable[[Context, Any], Awaitable[Any]]) -> Callable[..., Any]:
        def around(inner: Callable[..., Any]) -> Callable[..., Any]:
            async def handler(ctx: Context, params: Any) -> Any:
                found = await pick(ctx, params)
                return await inner(ctx, params) if found is None else found

            return handler

        return around

    async def tool(ctx: Context, params: Any) -> Any:
        work = TOOLS.get(params.name)
        return None if work is None else await work(ctx, params)

    async def resource(ctx: Context, params: Any) -> Any:
        uri = str(params.uri)
        found = RESOURCES.get(uri)
        if uri.startswith("test://template/"):
            number = uri.split("/")[3]
            words = json.dumps({"id": number, "templateTest": True, "data": f"Data for {number}"})
            found = {"mimeType": "application/json", "text": words}
        return None if found is None else {**COMPLETE, "contents": [{"uri": uri, **found}]}

    async def a_prompt(ctx: Context, params: Any) -> Any:
        return prompt(params) if params.name in PROMPTS else None

    async def set_level(ctx: Context, params: Any) -> Any:
        return {}

    empty = {"type": "object", "properties": {}}
    about = {"description": "A fixture."}
    tools = [{"name": n, **about, "inputSchema": SCHEMAS.get(n, empty)} for n in TOOLS]
    schemas = server.get_tool_input_schema
    server.get_tool_input_schema = lambda name: (
        SCHEMAS.get(name) or (schemas(name) if schemas else None)
    )
    wrap("tools/list", more("tools", tools))
    wrap("tools/call", instead(tool))
    wrap("resources/list", more("resources", [{"uri": u, "name": u} for u in RESOURCES]))
    template = {"uriTemplate": TEMPLATE, "name": "template"}
    wrap("resources/templates/list", more("resourceTemplates", [template]))
    wrap("resources/read", instead(resource))
    listed = [
        {"name": n, **about, "arguments": [{"name": a, "required": True} for a in arguments]}
        for n, arguments in PROMPTS.items()
    ]
    wrap("prompts/list", more("prompts", listed))
    wrap("prompts/get", instead(a_prompt))
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
