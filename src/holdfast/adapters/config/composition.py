"""The files that make up one configuration: includes, the override beside it, and `.env`.

An included file is read first and the including file wins; `holdfast.override.yaml` beside the
configuration wins over all. Mappings are merged, everything else is replaced. Each node remembers
its file, so that problems and `holdfast config` name the right one. Relative paths in an included
file are relative to that file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.adapters.config.document import (
    LARGEST_FILE,
    ListNode,
    Node,
    Scalar,
    Table,
    TableEntry,
    parse,
)
from holdfast.adapters.config.interpolation import InterpolationError, expand
from holdfast.adapters.config.kinds.command_lines import variables_table
from holdfast.adapters.config.kinds.kind import Reading
from holdfast.adapters.config.problems import Problem
from holdfast.adapters.config.sources import (
    note_source,
    read_env_file,
    remedy_for,
    resolve_path,
)
from holdfast.adapters.file_digests import read_content
from holdfast.system.places import CONFIG_NAMES, DOTENV, OVERRIDE_NAMES

MOST_FILES = 100
_VARIABLES = frozenset({"env", "environment"})
_OF_FOLDERS = ("env_file", "watch")
"""Keys of a service whose paths are relative to the file that they stand in."""


def read_dotenv(reading: Reading) -> None:
    """Read `.env` beside the configuration, for `${NAME}`. The caller's environment wins."""
    path = os.path.join(reading.folder, DOTENV)
    try:
        variables, problems = read_env_file(path, reading.sources)
    except FileNotFoundError:
        return
    except OSError as error:
        message, hint = error.strerror or str(error), remedy_for(error)
        reading.problems.append(Problem(path, None, None, "", None, message, hint))
        return
    reading.problems.extend(problems)
    reading.dotenv = variables
    reading.environ = {**variables, **reading.environ}


def with_other_files(root: Node | None, reading: Reading) -> Node | None:
    """Return the document with its includes and its override."""
    if root is not None and not isinstance(root, Table):
        return root
    document = root if root is not None else Table({}, 1, 1)
    merged = _with_includes(document, reading.file, reading, (reading.file,))
    folder, name = os.path.split(reading.file)
    for other in OVERRIDE_NAMES if name in CONFIG_NAMES else ():
        path = os.path.join(folder, other)
        if os.path.isfile(path) and (over := _read(path, Scalar("", True, 0, 0), "", reading)):
            merged = merge(merged, _with_includes(over, path, reading, (reading.file, path)))
    return merged if merged.entries or root is not None else root


def _with_includes(document: Table, file: str, reading: Reading, above: tuple[str, ...]) -> Table:
    entry = document.entries.get("include")
    if entry is None:
        return document
    own = Table(
        {name: value for name, value in document.entries.items() if name != "include"},
        document.line,
        document.column,
        document.file,
    )
    included: Table = Table({}, 1, 1)
    origin: dict[str, str] = {}
    for item in _paths(entry.node, reading):
        path = _resolve(item, file, reading)
        if path is None:
            continue
        if path in above or len(reading.sources) >= MOST_FILES:
            message = "it includes itself" if path in above else f"more than {MOST_FILES} files"
            reading.note(item, "include", message, "remove it", item.text)
            continue
        tree = _read(path, item, "include", reading)
        if tree is None:
            continue
        tree = _with_includes(tree, path, reading, (*above, path))
        for name, service in _services(tree).items():
            if (first := origin.setdefault(name, path)) != path:
                message = f'the service "{name}" is also declared in {os.path.basename(first)}'
                reading.note(service.key, f"services.{name}", message, "keep one of them")
        included = merge(included, _in_its_folder(tree, os.path.dirname(path), reading))
    return merge(included, own)


def _paths(node: Node, reading: Reading) -> Iterator[Scalar]:
    for item in node.items if isinstance(node, ListNode) else [node]:
        if isinstance(item, Scalar):
            if not item.is_null:
                yield item
        else:
            hint = "write include: [api/holdfast.yaml]"
            reading.note(item, "include", "this is not the path of a file", hint)


def _resolve(item: Scalar, file: str, reading: Reading) -> str | None:
    try:
        text = expand(item.text, reading.environ)
    except InterpolationError as error:
        reading.note(item, "include", str(error), error.suggestion)
        return None
    path = resolve_path(text.removeprefix("-"), os.path.dirname(file), reading.environ)
    if text.startswith("-") and not os.path.exists(path):
        return None
    return path


def _read(path: str, item: Scalar, key: str, reading: Reading) -> Table | None:
    try:
        data = read_content(path, LARGEST_FILE)
    except OSError as error:
        hint = remedy_for(error)
        if isinstance(error, FileNotFoundError):
            hint = f'create it, or write "-{item.text}" if it may be absent'
        reading.note(item, key, f"{path}: {error.strerror or error}", hint, item.text)
        return None
    note_source(reading.sources, path, data)
    root, problems = parse(data, path, is_other=True)
    reading.problems.extend(problems)
    if root is None or (isinstance(root, Scalar) and root.is_null):
        return Table({}, 1, 1, path)
    if not isinstance(root, Table):
        reading.note(root, "", "the file is not a mapping", "begin with services:")
        return None
    return root


def _services(tree: Table) -> dict[str, TableEntry]:
    entry = tree.entries.get("services")
    return entry.node.entries if entry is not None and isinstance(entry.node, Table) else {}


def _in_its_folder(tree: Table, folder: str, reading: Reading) -> Table:
    """Return an included file as if it stood in the folder of the configuration."""
    services = tree.entries.get("services")
    if folder == reading.folder or services is None or not isinstance(services.node, Table):
        return tree
    moved: dict[str, TableEntry] = {}
    for name, entry in services.node.entries.items():
        service = _as_service(entry.node)
        if service is None:
            moved[name] = entry
            continue
        keys = dict(service.entries)
        here = Scalar("working_dir", True, service.line, service.column, service.file)
        own = keys.get("working_dir")
        if own is None:
            default = Scalar(folder, False, service.line, service.column, service.file)
            keys["working_dir"] = TableEntry(here, default)
        else:
            keys["working_dir"] = TableEntry(own.key, _below(own.node, folder))
        for key in _OF_FOLDERS:
            if key in keys:
                keys[key] = TableEntry(keys[key].key, _below(keys[key].node, folder))
        table = Table(keys, service.line, service.column, service.file)
        moved[name] = TableEntry(entry.key, table)
    table = Table(moved, services.node.line, services.node.column, services.node.file)
    return Table(
        {**tree.entries, "services": TableEntry(services.key, table)},
        tree.line,
        tree.column,
        tree.file,
    )


def _below(node: Node, folder: str) -> Node:
    """Return relative paths as paths below a folder."""
    match node:
        case Scalar() if node.is_null or node.text.startswith(("/", "~", "$", "!")):
            return node
        case Scalar():
            mark = "-" if node.text.startswith("-") else ""
            path = mark + os.path.join(folder, node.text.removeprefix("-"))
            return Scalar(path, False, node.line, node.column, node.file)
        case ListNode():
            items = [_below(item, folder) for item in node.items]
            return ListNode(items, node.line, node.column, node.file)
    entries = dict(node.entries)
    if "paths" in entries:
        entries["paths"] = TableEntry(entries["paths"].key, _below(entries["paths"].node, folder))
    return Table(entries, node.line, node.column, node.file)


def merge(base: Table, over: Table, path: tuple[str, ...] = ()) -> Table:
    """Return both mappings as one. Where both have a key, mappings are merged again, and anything
    else is that of `over`."""
    entries = dict(base.entries)
    for name, entry in over.entries.items():
        known = entries.get(name)
        if known is not None:
            here = (*path, name)
            below, above = _as_table(known.node, here), _as_table(entry.node, here)
            if below is not None and above is not None:
                entry = TableEntry(entry.key, merge(below, above, here))
        entries[name] = entry
    place = over if over.entries else base
    return Table(entries, place.line, place.column, place.file)


def _as_table(node: Node, path: tuple[str, ...]) -> Table | None:
    if isinstance(node, Table):
        return node
    if path[-2:-1] == ("services",):
        return _as_service(node)
    if path[-1] in _VARIABLES and isinstance(node, ListNode):
        return variables_table(node)
    return None


def _as_service(node: Node) -> Table | None:
    """The block of a service, also if only its command is written."""
    if isinstance(node, Table):
        return node
    if isinstance(node, Scalar) and node.is_null:
        return None
    here = Scalar("command", True, node.line, node.column, node.file)
    return Table({"command": TableEntry(here, node)}, node.line, node.column, node.file)
