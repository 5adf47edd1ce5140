"""`doctor` about the installation itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast.cli import doctor


def install(site: Path, distribution: str) -> Path:
    """Lay a distribution out as pip does, with a package `holdfast`; return that package."""
    package = site / "holdfast"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    notes = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    notes.mkdir()
    (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (notes / "RECORD").write_text("holdfast/__init__.py,,\n")
    return package


def test_another_owner_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution with the same files is named with the commands that mend it."""
    package = install(tmp_path, doctor.DISTRIBUTION)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(doctor, "__file__", str(package / "cli" / "doctor.py"))
    (package / "cli").mkdir()
    assert not list(doctor.check_package())
    install(tmp_path, "holdfast")
    (check,) = doctor.check_package()
    assert check.level == "fail"
    assert '"holdfast", another program' in check.found
    assert check.fix.startswith("pip uninstall holdfast; pip install --force-reinstall")


def test_the_distribution_has_its_own_name() -> None:
    """What doctor calls ours is what pyproject.toml builds."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'\nname = "{doctor.DISTRIBUTION}"\n' in project.read_text()
