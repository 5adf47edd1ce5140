"""The keys about ports: `port`, `ports`, `port_range`, and `{{ port }}` in what is run."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.adapters.config.blocks import Key, MapOf, Values
from holdfast.adapters.config.kinds import INTERPOLATED, Integer, Reading, ScalarKind, Schema
from holdfast.rules.ports import AUTO, DEFAULT_RANGE, SINGLE, names_in, variable
from holdfast.system.patterns import pattern

_NAME = r"[a-z0-9][a-z0-9_-]{0,31}"
_RANGE = pattern(r"(\d{1,5})\s*-\s*(\d{1,5})")
_PORT = Integer(1, 65535, words={"auto": AUTO})


class PortNames(MapOf):
    """Ports by names."""

    wanted = "a mapping of ports"

    def __init__(self) -> None:
        super().__init__(_PORT, _NAME)

    def wrong_name(self, name: str) -> tuple[str, str]:
        return f'"{name}" cannot name a port', "write for example api: auto"


class PortRange(ScalarKind):
    """Where ports are leased from."""

    wanted = "a range of ports"

    def convert(self, text: str) -> tuple[int, int]:
        found = _RANGE.fullmatch(text.strip())
        low, high = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 0 < low <= high < 65536:
            raise ValueError(f'"{text}" is not a range of ports; write 8082-9081')
        return low, high

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string", "pattern": r"^\d+\s*-\s*\d+$"}, INTERPOLATED]}


SERVICE_KEYS = (
    Key("port", _PORT, "A port it listens on, told as PORT; `auto` leases a free one."),
    Key("ports", PortNames(), "Further ports by name, told as PORT_NAME."),
)
PORT_RANGE = Key(
    "port_range",
    PortRange(),
    "Where `auto` ports are leased from.",
    f"{DEFAULT_RANGE[0]}-{DEFAULT_RANGE[1]}",
)


def ports_of(reading: Reading, values: Values) -> dict[str, int]:
    """All ports of a service by their names; that of `port` is named so, too."""
    if "port" not in values and "ports" not in values:
        return {}
    named: dict[str, int] = values.get("ports") or {}
    if "port" in values and SINGLE in named:
        message = "this port is named by `port` already"
        reading.note(values.at("ports"), values.path_of("ports"), message, "keep one of them")
    ports = {**({SINGLE: values["port"]} if "port" in values else {}), **named}
    for one in [port for port in ports.values() if port != AUTO]:
        if list(ports.values()).count(one) > 1:
            message = f"the port {one} stands here twice"
            reading.note(values.at("ports"), values.path_of("ports"), message, "change one")
            break
    if len({variable(name) for name in ports}) < len(ports):
        message = "two of these names are the same variable"
        reading.note(values.at("ports"), values.path_of("ports"), message, "change one")
    return ports


def check_placeholders(
    reading: Reading, values: Values, ports: dict[str, int], texts: Iterable[str]
) -> None:
    """What is asked for in the command must be there."""
    for name in dict.fromkeys(name for text in texts for name in names_in(text)):
        if name not in ports:
            wanted = "port" if name == SINGLE else f"ports.{name}"
            key, hint = ("port: auto", "") if name == SINGLE else (f"ports: {{{name}: auto}}", "")
            message = f"{{{{ {wanted} }}}} is used, but the service has no such port{hint}"
            reading.note(values.node, values.path, message, f"write {key}")
