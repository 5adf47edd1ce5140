"""The dashboard's sources: what the lock may hold, what the lint forbids, when a page is stale."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"


def loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lock() -> dict[str, Any]:
    packages: dict[str, Any] = json.loads((WEB / "package-lock.json").read_text())["packages"]
    return packages


def test_the_lock_names_no_host(lock: dict[str, Any]) -> None:
    """Packages come from whatever registry a person's npm is set to, and are checked by hash."""
    assert '"resolved"' not in (WEB / "package-lock.json").read_text()
    assert [name for name, entry in lock.items() if name and "integrity" not in entry] == []


def test_the_lock_has_every_platform(lock: dict[str, Any]) -> None:
    """Each optional package that an entry names has its own entry: npm may forget those of
    other platforms, and then nobody can install there."""
    missing = [
        f"{name}: {optional}"
        for name, entry in lock.items()
        for optional in entry.get("optionalDependencies", ())
        if f"node_modules/{optional}" not in lock and f"{name}/node_modules/{optional}" not in lock
    ]
    assert missing == []


def test_few_packages_reach_the_browser(lock: dict[str, Any]) -> None:
    """What the page is made of at run time is a short list; another one needs a decision."""
    wanted = {
        *("@preact/signals", "preact", "uplot", "@xterm/xterm", "@xterm/addon-fit"),
        *("@xterm/addon-serialize", "@xterm/addon-webgl"),
    }
    assert set(lock[""]["dependencies"]) == wanted


def test_sources_pass_the_lint() -> None:
    """No markup from text, no code from text, no other host, no silenced type."""
    assert loaded("page_script", ROOT / "scripts" / "page.py").lint() == []


def test_the_types_of_the_api_are_current() -> None:
    """`web/src/api.gen.ts` is what the vocabulary makes of itself."""
    command = [sys.executable, "scripts/api_types.py", "--check"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_page_is_stale_when_its_sources_changed(tmp_path: Path) -> None:
    """The digest covers every source, whatever the line endings; without Node, it says so."""
    copied = shutil.ignore_patterns("node_modules")
    shutil.copytree(WEB, tmp_path / "web", ignore=copied)
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    hook = loaded("hook_copy", tmp_path / "hatch_build.py")
    digest = hook.digest()
    hook.PAGE.mkdir(parents=True)
    (hook.PAGE / "index.html").write_text("")
    assert not hook.is_fresh()
    (hook.PAGE / "build.json").write_text(json.dumps({"inputs": digest}))
    assert hook.is_fresh()
    source = tmp_path / "web" / "src" / "main.tsx"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert hook.digest() == digest
    source.write_text("changed")
    assert not hook.is_fresh()
    assert hook.needs_build()
    environ = {**os.environ, "PATH": str(tmp_path), "HOLDFAST_SKIP_WEB": "1"}
    command = [sys.executable, "-I", "-S", "hatch_build.py"]
    skipped = subprocess.run([*command, "--needs-build"], cwd=tmp_path, env=environ)
    assert skipped.returncode == 1
    built = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert built.returncode == 1
    assert "no Node 22.12 or newer was found" in built.stderr
    assert "HOLDFAST_SKIP_WEB=1" in built.stderr
