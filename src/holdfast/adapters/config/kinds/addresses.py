"""Addresses of HTTP and the headers of a request."""

from __future__ import annotations

import re
from typing import Any

from holdfast.adapters.config.document import Node, Table
from holdfast.adapters.config.kinds.blocks import MapOf
from holdfast.adapters.config.kinds.command_lines import read_secret
from holdfast.adapters.config.kinds.kind import INTERPOLATED, Reading, ScalarKind, Schema
from holdfast.adapters.config.kinds.scalars import Text
from holdfast.system.patterns import pattern

_URL = pattern(r"https?://[^\s/?#]+\S*", re.IGNORECASE)


class Url(ScalarKind):
    """An address of HTTP."""

    wanted = "a URL"

    def convert(self, text: str) -> str:
        if not _URL.fullmatch(text):
            raise ValueError(f'"{text}" is not a URL; write http://localhost:8000/health')
        return text

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string", "pattern": "^https?://"}, INTERPOLATED]}


class HeaderValue(Text):
    """The value of a header, or the file that has it. It has no line break."""

    is_secret = True

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        if not isinstance(node, Table) or set(node.entries) != {"file"}:
            return super().read(node, key, reading)
        value = read_secret(node.entries["file"].node, f"{key}.file", reading)
        try:
            return None if value is None else self.convert(value)
        except ValueError:
            reading.note(node, key, "the file has several lines", "a header has one line")
            return None

    def convert(self, text: str) -> str:
        if "\n" in text or "\r" in text:
            raise ValueError("a header has one line; remove the line break")
        return text

    def schema(self) -> Schema:
        file = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
        return {"anyOf": [super().schema(), file]}


class Headers(MapOf):
    """Headers of a request. Their values may be secrets, so that no problem repeats them."""

    def __init__(self) -> None:
        super().__init__(HeaderValue(), r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

    def wrong_name(self, name: str) -> tuple[str, str]:
        return f'"{name}" cannot be the name of a header', "write X-Name"


class SecretUrl(Url):
    """An address that a problem does not repeat."""

    is_secret = True

    def convert(self, text: str) -> str:
        try:
            return super().convert(text)
        except ValueError:
            raise ValueError("this is not a URL; write https://example.com/hook") from None
