"""A service's state is changed in one file, and its facts only by its runner."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from holdfast.engine.runner.facts import Facts
from tests.project.tree import PACKAGE, modules, text_of

RUNNER = "engine/runner/runner.py"


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in modules():
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(text_of(path))


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every attribute that is assigned, whatever the form of the statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def changes(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of the one method that makes new facts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("._change"):
            yield node


def test_facts_are_made_in_one_place() -> None:
    """They begin with their runner and change by its `_change` alone."""
    for name, tree in trees():
        places = {
            function.name
            for function in functions(tree)
            if any(target.attr == "facts" for target in assigned(function))
        }
        if name == RUNNER:
            assert places == {"__init__", "_change"}
        elif name.startswith(("engine/", "app/")):
            assert places == set(), f"{name} replaces facts in {places}"


def test_only_the_runner_changes_its_facts() -> None:
    """Everybody else calls a method of the runner that says what happened."""
    fields = set(Facts.__struct_fields__)
    for name, tree in trees():
        if name != RUNNER and name.startswith(("engine/", "app/", "doors/", "supervisor")):
            assert not list(changes(tree)), f"{name} calls the runner's _change"
            for target in assigned(tree):
                holder = ast.unparse(target.value)
                is_runner = holder.endswith(("runner", "service", ".facts")) or "runners[" in holder
                assert not (is_runner and target.attr in fields), f"{name}: {ast.unparse(target)}"


def test_a_state_is_assigned_by_the_table_or_restored() -> None:
    """Two functions of one file give a service its state, and one of them asks the table."""
    for name, tree in trees():
        places = {
            function.name
            for function in functions(tree)
            if any(word.arg == "state" for call in changes(function) for word in call.keywords)
        }
        assert places == ({"_move", "_restore_state"} if name == RUNNER else set()), name
    source = text_of(PACKAGE / RUNNER)
    assert source.count("after = next_state(before, cause)") == 1


def test_only_the_runner_applies_the_table() -> None:
    """Nobody else asks what a cause does to a state."""
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "holdfast.rules.lifecycle.table":
                assert name == RUNNER, name
