"""What a release consists of, as far as it can be tried without building one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import release
from tests.project.tree import ROOT


def test_the_version_is_set_in_each_place(tmp_path: Path) -> None:
    """Both files have it once, and the package says the same."""
    for name, _ in release.VERSION_FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    release.set_version(tmp_path, "9.8.7")
    assert '__version__ = "9.8.7"' in (tmp_path / "src/holdfast/__init__.py").read_text()
    assert '\nversion = "9.8.7"\n' in (tmp_path / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(release.ReleaseFailed, match="has 0 versions"):
        release.set_version(tmp_path, "9.8.7")


def test_the_bill_of_materials_has_every_pin() -> None:
    """Each package with its version, address and hashes; the application depends on all."""
    pins = (ROOT / "requirements/run.txt").read_text()
    bill = release.bill_of_materials("1.2.3", pins)
    names = {component["name"] for component in bill["components"]}
    assert {"msgspec", "starlette", "PyYAML"} <= names
    assert len(bill["components"]) == sum("==" in line for line in pins.splitlines())
    assert all(component["hashes"] for component in bill["components"])
    assert len(bill["dependencies"][0]["dependsOn"]) == len(bill["components"])


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.3", "1.2.3-rc1", ""])
def test_what_is_no_version_is_refused(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is built."""
    assert release.main([version, "--try"]) == 1
    assert "is no version" in capsys.readouterr().err
