"""`watch:` of a service: patterns of files, or a block with more."""

from __future__ import annotations

import os
from typing import Any

from holdfast.adapters.config.blocks import Block, Key
from holdfast.adapters.config.document import Node, Table
from holdfast.adapters.config.env_file import resolved
from holdfast.adapters.config.kinds import (
    Boolean,
    Duration,
    Kind,
    ListOf,
    Reading,
    ScalarKind,
    Schema,
    Text,
)
from holdfast.vocabulary.quantities import parse_signal, signal_name
from holdfast.vocabulary.specs.services import WatchSpec

RESTART = "restart"
LONGEST_DEBOUNCE = 60.0


class WatchAction(ScalarKind):
    """`restart`, or a signal: `signal HUP`, `SIGHUP`."""

    wanted = "restart or a signal"

    def convert(self, text: str) -> str:
        word = text.strip()
        if word.lower() == RESTART:
            return RESTART
        name = word.split(None, 1)[1] if word.lower().startswith("signal ") else word
        try:
            return signal_name(parse_signal(name))
        except ValueError:
            raise ValueError(f'"{text}" is not known; write restart, or signal HUP') from None

    def schema(self) -> Schema:
        return {"type": ["string", "integer"], "examples": [RESTART, "signal HUP"]}


WATCH = Block(
    [
        Key("paths", ListOf(Text()), "Files: patterns with *, ** and ?, or folders."),
        Key("ignore", ListOf(Text()), "Files that do not count, beside the usual ones."),
        Key("debounce", Duration("s"), "Changes count as one until it is quiet so long.", "300ms"),
        Key("action", WatchAction(), "restart, or a signal as `signal HUP`.", RESTART),
        Key("polling", Boolean(), "Compare again and again, where nobody tells changes.", False),
    ],
    definition="watch",
    synonyms={"path": "paths", "files": "paths", "exclude": "ignore", "delay": "debounce"},
)


class WatchPaths(Kind):
    """Patterns of files, or a block with `paths`."""

    wanted = "a list of files"

    def read(self, node: Node, key: str, reading: Reading) -> WatchSpec | None:
        fields: dict[str, Any]
        if isinstance(node, Table):
            values = WATCH.read(node, key, reading)
            if values is None or values.refused:
                return None
            fields = dict(values)
        else:
            fields = {"paths": ListOf(Text()).read(node, key, reading)}
        if fields.get("debounce", 0.0) > LONGEST_DEBOUNCE:
            hint = "write 300ms; a bare number counts seconds"
            reading.note(node, f"{key}.debounce", "is more than a minute", hint)
            return None
        if not fields.get("paths"):
            reading.note(node, key, "names no files", 'write watch: ["src/**/*.py"]')
            return None
        fields["paths"] = tuple(self.absolute(text, reading) for text in fields["paths"])
        fields["ignore"] = tuple(
            self.absolute(text, reading) if "/" in text.rstrip("/") else text.rstrip("/")
            for text in fields.get("ignore", ())
        )
        return WatchSpec(**fields)

    def absolute(self, text: str, reading: Reading) -> str:
        return os.path.normpath(resolved(text, reading.folder, reading.environ))

    def hint(self) -> str:
        return 'write watch: ["src/**/*.py"], or keys: paths, ignore, debounce, action'

    def schema(self) -> Schema:
        listed = ListOf(Text()).schema()
        return {"anyOf": [*listed["anyOf"], WATCH.schema()]}
