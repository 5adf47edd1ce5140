"""Modules say what they own, names say something, and each test states its promise."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.project.tree import ROOT, files, modules, named, text_of

SAYS_NOTHING = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def test_files() -> list[Path]:
    """Files of tests, this one included."""
    return [p for p in files() if p.name.startswith("test_") and (ROOT / "tests") in p.parents]


test_files.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", modules(), ids=named)
def test_module_says_what_it_owns(module: Path) -> None:
    """Every module begins with a docstring."""
    text = text_of(module)
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_names_say_something() -> None:
    """No module or folder has a name that could be anything's."""
    words = {word for path in modules() for word in named(path.with_suffix("")).split("/")}
    assert words & SAYS_NOTHING == set()


@pytest.mark.parametrize("path", test_files(), ids=named)
def test_every_test_states_its_promise(path: Path) -> None:
    """Every test has a docstring."""
    tree = ast.parse(text_of(path))
    silent = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
