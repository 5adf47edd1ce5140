"""The keys of the keeper's memory are listed in one module, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_memory import KeyFamily
from tests.project.tree import ROOT, named

SOURCE = ROOT / "src" / "holdfast"
LISTS = {SOURCE / "adapters" / "keeper_memory.py", SOURCE / "keeper" / "memory.py"}
# Names a turn that workflows wait for, not a key.
ELSEWHERE = {"src/holdfast/app/handlers/workflows.py": ["workflow:"]}
# Every upgrade reads what the version before it kept: add keys here, never change one.
SINGLE = {
    "approved_configuration", "audit_head", "caller", "config", "dismissed_banners", "keeper",
    "lockdown", "log_format", "log_level", "mode_by_hand", "mode_from", "seq", "settings",
    "shutdown", "supervisor_environment", "upgrade_from",
}  # fmt: skip
PREFIXES = {
    "agent_written:", "approval:", "condition:",
    "desired:", "environ:", "good:", "heard:", "listen:", "overlap:",
    "mcp_call:", "mcp_handshake:", "owner:", "ports:", "recent:", "repeat:", "restarts:", "scale:",
    "schedule:", "sentence:", "spec:", "under_way:", "workflow:",
}  # fmt: skip


def speakers() -> Iterator[Path]:
    """The modules of the processes that use the keeper's memory."""
    folders = [SOURCE / name for name in ("adapters", "app", "doors", "engine", "keeper")]
    yield from SOURCE.glob("supervisor*.py")
    for folder in folders:
        yield from folder.rglob("*.py")


def texts(node: ast.AST) -> Iterator[str]:
    """The texts that this expression begins with, if it is written as one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr) and node.values:
        yield from texts(node.values[0])
    elif isinstance(node, ast.BinOp):
        yield from texts(node.left)


def is_memory(node: ast.expr) -> bool:
    """Whether this expression is a mapping of kept texts."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "kept"


def spelled(tree: ast.AST) -> Iterator[str]:
    """The keys that this module spells, and prefixes of keys."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            function = node.func
            looks_up = function.attr in ("get", "pop") and is_memory(function.value)
            if looks_up or function.attr == "keep":
                yield from texts(node.args[0])
        elif isinstance(node, ast.Subscript) and is_memory(node.value):
            yield from texts(node.slice)
        elif isinstance(node, ast.Compare) and any(map(is_memory, node.comparators)):
            yield from texts(node.left)
        yield from (text for text in texts(node) if text in PREFIXES)


def test_keys_stay() -> None:
    """No key is changed or removed: a later version must understand what an earlier one kept."""
    listed = vars(keeper_memory).values()
    assert {key for key in listed if isinstance(key, str) and key in SINGLE} == SINGLE
    assert {family.prefix for family in listed if isinstance(family, KeyFamily)} == PREFIXES


def test_no_module_spells_a_key() -> None:
    """A module takes its keys from `keeper_memory`."""
    found = {
        named(path): keys
        for path in speakers()
        if path not in LISTS and (keys := sorted(set(spelled(ast.parse(path.read_text())))))
    }
    assert found == ELSEWHERE


def test_entries_of_a_family() -> None:
    """A family finds its own keys, each with the name that follows the prefix."""
    kept = {"spec:web": "1", "spec:": "2", "species": "3", "desired:web": "4"}
    assert list(keeper_memory.spec.entries(kept)) == [("web", "1"), ("", "2")]
    assert keeper_memory.spec("web") == "spec:web"
