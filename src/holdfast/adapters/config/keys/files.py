"""The keys `files` and `git`: which folders the doors offer, and what repositories may do."""

from __future__ import annotations

import os
import re

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table
from holdfast.adapters.config.kinds.blocks import Block, Key, MapOf, SpecOf
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import Boolean, Duration, ListOf, Size, Text
from holdfast.adapters.config.sources import resolve_path
from holdfast.system.patterns import pattern
from holdfast.vocabulary.specs.files import BackupSpec, FilesSpec, RootSpec
from holdfast.vocabulary.specs.git import GitSpec

_NAME = pattern(r"[a-z0-9][a-z0-9._-]{0,62}")
_RESERVED = "uri"
FILE_ROOT = Block(
    [
        Key("name", Text(), "What it is called, in a list; the folder's own name by default."),
        Key("path", Text(), "The folder, relative to this file."),
        Key("write", Boolean(), "Let files below it be changed."),
    ],
    spec=RootSpec,
    definition="file_root",
    synonyms={"dir": "path", "folder": "path", "writable": "write"},
)


class FileRoots(Kind):
    """Folders as a list, or as a mapping from names. Each is a path or a block."""

    wanted = "a list of folders, or a mapping from names to folders"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[RootSpec, ...] | None:
        written: list[tuple[Node, str, str | None, Node]] = []
        if isinstance(node, Table):
            for name, entry in node.entries.items():
                written.append((entry.key, f"{key}.{name}", name, entry.node))
        elif isinstance(node, ListNode):
            for number, one in enumerate(node.items):
                written.append((one, f"{key}[{number}]", None, one))
        else:
            written.append((node, key, None, node))
        found: dict[str, RootSpec] = {}
        for place, path, given, one in written:
            root = self._root(one, path, given, reading)
            if root is None:
                continue
            if _NAME.fullmatch(root.name) is None or root.name == _RESERVED:
                hint = "write lower-case letters, digits, '.', '_' and '-'"
                reading.note(place, path, f'"{root.name}" cannot name a root', hint, root.name)
            elif root.name in found:
                reading.note(place, path, f'two roots are called "{root.name}"', "add name: …")
            else:
                found[root.name] = root
        return tuple(found.values())

    def _root(self, node: Node, key: str, name: str | None, reading: Reading) -> RootSpec | None:
        if isinstance(node, Scalar):
            path, fields = Text().read(node, key, reading), {}
        else:
            values = FILE_ROOT.read(node, key, reading)
            if values is None or values.refused:
                return None
            fields = dict(values)
            path = fields.pop("path", None)
            name = fields.pop("name", None) or name
        if not path:
            reading.note(node, key, "this root has no path", "write path: .")
            return None
        folder = os.path.normpath(resolve_path(path, reading.folder, reading.environ))
        made = re.sub(r"[^a-z0-9._-]+", "-", os.path.basename(folder).lower()).strip("-._")
        return RootSpec(name=name or made or "root", path=folder, **fields)

    def hint(self) -> str:
        return "write roots: {project: {path: ., write: true}}"

    def schema(self) -> Schema:
        one: Schema = {"anyOf": [Text().schema(), FILE_ROOT.schema()]}
        several = MapOf(FILE_ROOT, _NAME.pattern).schema()
        several["patternProperties"] = {f"^{_NAME.pattern}$": one}
        return {"anyOf": [Text().schema(), {"type": "array", "items": one}, several]}


BACKUPS = Block(
    [
        Key("keep", Duration("s"), "How long what files were before can be had back."),
        Key("max_size", Size(0, 2**62), "The oldest go beyond this."),
    ],
    spec=BackupSpec,
    definition="file_backups",
    synonyms={"max_age": "keep", "total_size": "max_size"},
)
FILES = Block(
    [
        Key("roots", FileRoots(), "Folders whose files are offered; the project's, read-only."),
        Key("deny", ListOf(Text()), "Globs that are never opened; `!` admits a usual one again."),
        Key("backups", SpecOf(BACKUPS), "What is kept of files before they are changed."),
    ],
    spec=FilesSpec,
    definition="files",
)


GIT = Block(
    [
        Key("allow_hooks", Boolean(), "Run the hooks of a repository."),
        Key(
            "allow_programs",
            Boolean(),
            "Run filters, merge drivers and signers that a repository configures.",
        ),
        Key(
            "allow_outside",
            Boolean(),
            "Take repositories whose data lie below no root, as worktrees may.",
        ),
        Key("checkpoints", Boolean(), "Make one before the first change of a session."),
        Key("program", Text(), "Which git to run.", "git"),
    ],
    spec=GitSpec,
    definition="git",
    synonyms={"hooks": "allow_hooks", "filters": "allow_programs", "checkpoint": "checkpoints"},
)
