"""Pins of development carry hashes, and dependencies exclude versions with known holes."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pins() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pins", ROOT / "scripts" / "pins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pins"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda it: it.name
)
def test_every_pin_has_hashes(pins: ModuleType, path: Path) -> None:
    """Each entry is one version with hashes; pip is told to require them."""
    assert pins.without_hashes(path) == []
    found = [
        pin for line, pin in pins.pins_of(path.read_text()) if line and not line.startswith("#")
    ]
    assert found
    assert all(pin is not None for pin in found)


def test_running_needs_no_tool() -> None:
    """`scripts/run` installs the dependencies of the package, and no tool of development."""
    assert "scripts/setup --run\n" in (ROOT / "scripts" / "run").read_text()
    pinned = names_in((ROOT / "requirements" / "run.txt").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    needed = project.partition("dependencies = [")[2].partition("]")[0]
    assert {word.lower() for word in re.findall(r'"([\w-]+)', needed.replace("_", "-"))} <= pinned
    assert not pinned & {"coverage", "hypothesis", "mypy", "playwright", "pytest", "ruff"}


def names_in(pins: str) -> set[str]:
    names = re.findall(r"^([\w.-]+)==", pins, re.MULTILINE)
    return {name.lower().replace("_", "-") for name in names}


def test_hashes_are_required() -> None:
    """By every script that installs pins."""
    for name in ("setup", "bench", "conformance"):
        assert "--require-hashes" in (ROOT / "scripts" / name).read_text(), name


@pytest.mark.parametrize(
    ("file", "is_wanted"),
    [
        ("a_b-1.0-py3-none-any.whl", True),
        ("A.B-1.0.tar.gz", True),
        ("a_b-1.0-cp39-abi3-macosx_11_0_arm64.whl", True),
        ("a_b-1.0-cp313-cp313-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", True),
        ("a_b-1.0-1-cp310-cp310-musllinux_1_2_x86_64.whl", True),
        ("a_b-1.0-cp39-cp39-manylinux_2_17_x86_64.whl", False),
        ("a_b-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl", False),
        ("a_b-1.0-pp311-pypy311_pp73-macosx_11_0_arm64.whl", False),
        ("a_b-1.0-cp313-cp313-win_amd64.whl", False),
        ("a_b-1.0.1-py3-none-any.whl", False),
        ("a_b-1.0.1.tar.gz", False),
        ("a_b_c-1.0-py3-none-any.whl", False),
    ],
)
def test_which_files_count(pins: ModuleType, file: str, is_wanted: bool) -> None:
    """Those of the release, for supported systems and versions of Python, and the source."""
    assert pins.is_wanted(file, "a-b", "1.0") is is_wanted


def test_hashes_are_replaced_not_added(pins: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments and markers stay, and a second run changes nothing."""
    monkeypatch.setattr(pins, "hashes_of", lambda name, version: [f"{name}{version}", "00"])
    text = '# run time\na==1\n\nb==2; python_version < "3.11"\n'
    once = pins.with_hashes(text)
    assert once == (
        "# run time\na==1 \\\n    --hash=sha256:a1 \\\n    --hash=sha256:00\n\n"
        'b==2; python_version < "3.11" \\\n    --hash=sha256:b2 \\\n    --hash=sha256:00\n'
    )
    assert pins.with_hashes(once) == once


def test_no_known_hole_is_admitted() -> None:
    """Lower bounds lie at or above the version that fixed the last known one."""
    declared = (ROOT / "pyproject.toml").read_text()
    for bound in ('"h11>=0.16,', '"cryptography>=46.0.5"'):
        assert bound in declared
