"""Rules and vocabulary do no input or output, and know neither clock nor chance."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.project.tree import PACKAGE, modules, named, text_of

PURE = [path for path in modules() if path.relative_to(PACKAGE).parts[0] in ("rules", "vocabulary")]
HARMLESS = {
    *("__future__", "base64", "binascii", "codecs", "collections", "copy", "cronsim", "datetime"),
    *("difflib", "enum", "fnmatch", "functools", "hashlib", "importlib", "ipaddress", "itertools"),
    *("json", "math", "msgspec", "posixpath", "re", "shlex", "signal", "typing", "unicodedata"),
    *("dataclasses", "string", "operator", "textwrap", "urllib.parse", "bisect", "heapq"),
}
"""Modules that compute; `os` is looked at name by name."""
OURS = ("holdfast.rules", "holdfast.secrets", "holdfast.system.patterns", "holdfast.vocabulary")
OS_NAMES = {"sep", "pardir", "curdir", "extsep", "altsep"}
PATH_NAMES = {"basename", "dirname", "isabs", "join", "normpath", "split", "splitext"}
"""Functions of `os.path` that look at the text alone."""
FORBIDDEN_CALLS = {"open", "input", "print", "exec", "eval", "breakpoint"}
CLOCKS = {"now", "utcnow", "today"}
"""Methods of dates that ask the clock."""


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""


def _impure_imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name != "os"]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    else:
        return []
    return [
        name
        for name in names
        if name not in HARMLESS and name.split(".")[0] not in HARMLESS and not name.startswith(OURS)
    ]


def _impure_uses(node: ast.AST) -> list[str]:
    found: list[str] = []
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(node.func.id)
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
            found.append(_dotted(node.func))
    if isinstance(node, ast.Attribute):
        parts = _dotted(node).split(".")
        if parts[0] == "os" and len(parts) == 2 and parts[1] not in {*OS_NAMES, "path"}:
            found.append(".".join(parts))
        if parts[:2] == ["os", "path"] and len(parts) == 3 and parts[2] not in PATH_NAMES:
            found.append(".".join(parts))
    return found


@pytest.mark.parametrize("module", PURE, ids=named)
def test_rules_and_words_are_pure(module: Path) -> None:
    """They import nothing that reads, writes, waits, tells the time or throws dice."""
    tree = ast.parse(text_of(module))
    found = [
        name for node in ast.walk(tree) for name in (*_impure_imports(node), *_impure_uses(node))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        *("import time", "import random", "from os import stat", "import socket"),
        *("open('x')", "os.listdir('.')", "os.path.exists('x')", "datetime.now()"),
        *("from holdfast.adapters import tokens", "import urllib.request", "import subprocess"),
    ],
)
def test_impurity_is_found(source: str) -> None:
    """The test above would notice each of these."""
    tree = ast.parse(source)
    assert [one for node in ast.walk(tree) for one in (*_impure_imports(node), *_impure_uses(node))]
