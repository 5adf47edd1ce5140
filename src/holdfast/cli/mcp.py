"""The verb `mcp`: an assistant's line, or the configuration of its program."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import TOOLSETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def mcp(call: Call) -> int:
    if call.operands:
        if call.operands[0] != "config":
            raise UsageError(f'"{call.operands[0]}" is not config', "holdfast mcp --help")
        from holdfast.cli.mcp_config import config

        return config(call)
    return _relay(call)


def _relay(call: Call) -> int:
    from holdfast.cli.mcp_relay import Relay

    greeting: dict[str, Any] = {"read_only": bool(call.options.get("read_only"))}
    if "toolsets" in call.options:
        greeting["toolsets"] = _toolsets(call.options["toolsets"])

    def launch() -> None:
        from holdfast.cli.up import start_quietly

        start_quietly(call)

    launching = launch if call.options.get("start") else None
    try:
        return Relay(call.places, greeting, launching).run()
    except (BrokenPipeError, ConnectionResetError):
        return 0


def _toolsets(text: str) -> list[str]:
    names = [word.strip() for word in text.split(",") if word.strip()]
    for name in names:
        if name not in TOOLSETS:
            raise UsageError(f'no toolset "{name}"', f"known: {', '.join(TOOLSETS)}")
    return names
