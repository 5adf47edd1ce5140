"""The tool that hands a task to another AI backend: delegate."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.answers import Answer
from holdfast.gate.mcp.arguments import ToolArguments
from holdfast.gate.mcp.call import ToolCall
from holdfast.gate.mcp.processes import Seconds
from holdfast.vocabulary.errors import UsageError


class DelegateArguments(ToolArguments, frozen=True, kw_only=True):
    backend: Annotated[str, Meta(description="a name below backends")] | None = None
    task: str | None = None
    session: Annotated[str, Meta(description="wait further for this one")] | None = None
    cwd: Annotated[str, Meta(description="relative to the project")] = ""
    timeout_s: Seconds = 45.0


async def delegate(call: ToolCall, given: DelegateArguments) -> Answer:
    fields: dict[str, Any] = {"seconds": call.remaining(given.timeout_s)}
    if given.session is not None:
        fields["session"] = given.session
    elif given.backend and given.task:
        fields |= {"backend": given.backend, "text": given.task, "working_dir": given.cwd}
    else:
        raise UsageError("delegate needs `backend` and `task`, or `session`")
    found = await call.ask("delegate", **fields)
    if found["reason"] == "working":
        return Answer(f"it still works; ask again with session {found['session']}")
    text = answers.cap(answers.clean(found["text"]))
    return Answer(f"{found['reason']} ({found['session']})\n{answers.fence(text.splitlines())}")
