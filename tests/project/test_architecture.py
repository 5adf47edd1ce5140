"""ARCHITECTURE.md is complete and true."""

from __future__ import annotations

import ast
import re

from tests.project.tree import PACKAGE, ROOT, modules, named, text_of

ARCHITECTURE = ROOT / "ARCHITECTURE.md"


def imports_of(path: str) -> set[str]:
    """Modules that a file imports, relative to the package, as file names."""
    found = set()
    for node in ast.walk(ast.parse(text_of(PACKAGE / path))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_every_package_is_on_the_map() -> None:
    """The codemap names every package and every module of the top level."""
    text = text_of(ARCHITECTURE)
    tops = {path.relative_to(PACKAGE).parts[0] for path in modules()}
    missing = {top for top in tops if not top.startswith("__") and f"`{top}" not in text}
    assert missing == set()


def test_every_file_it_names_exists() -> None:
    """No file name on the page has rotted."""
    for name in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text_of(ARCHITECTURE)):
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def test_the_keeper_link_uses_only_wire_and_handover() -> None:
    """Of the keeper's code, the supervisor loads what is needed to speak and to hand over."""
    allowed = {"holdfast.keeper.protocol", "holdfast.keeper.handover"}
    for path in modules():
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("adapters/keeper_link"):
            continue
        used = {module for module in imports_of(name) if module.startswith("holdfast.keeper.")}
        strange = {m for m in used if not any(m == a or m.startswith(a + ".") for a in allowed)}
        assert strange == set(), named(path)


def test_keeper_and_log_need_the_standard_library_only() -> None:
    """Keeper, log and the command line's path import no third-party package."""
    import sys

    for path in modules():
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("keeper/", "logbook/", "client/", "cli/")):
            tops = {module.partition(".")[0] for module in imports_of(name)}
            foreign = tops - set(sys.stdlib_module_names) - {"holdfast", "__future__"}
            assert foreign == set(), name


def test_packages_that_are_loaded_later_can_be_loaded_by_two_threads() -> None:
    """A package that imports its own modules, and is met halfway by another thread, would be seen
    half made: only those do that are there from the start, or are entered by their name alone."""
    at_start = {"adapters/metrics"}
    by_name = {"adapters/config"}
    importing = {
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.glob("**/__init__.py")
        if any(it.startswith("holdfast.") for it in imports_of(str(path.relative_to(PACKAGE))))
    }
    assert importing == at_start | by_name
    for path in PACKAGE.glob("**/*.py"):
        if (PACKAGE / "adapters" / "config") not in path.parents:
            name = str(path.relative_to(PACKAGE))
            entered = {it for it in imports_of(name) if it.startswith("holdfast.adapters.config.")}
            assert not any(
                (PACKAGE.parent / it.replace(".", "/")).with_suffix(".py").exists()
                for it in entered
            ), name
