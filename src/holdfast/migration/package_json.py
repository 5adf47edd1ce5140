"""package.json: the scripts that start something and keep running."""

from __future__ import annotations

import os
import re

from holdfast.migration.findings import Findings
from holdfast.migration.located import read_located

NAMES = ("package.json",)
_SERVERS = re.compile(r"^(?:dev|start|serve|server|watch|preview|worker|storybook)(?::[\w:-]+)?$")
_LOCKS = (
    ("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun"),
)  # fmt: skip


def recognises(name: str, text: str) -> bool:
    return os.path.basename(name) == "package.json"


def read(path: str, text: str) -> Findings:
    found = Findings("package.json", path)
    document = read_located(text, os.path.basename(path))
    folder = os.path.dirname(path)
    declared = document.get("packageManager")
    tool = str(declared.value).partition("@")[0] if declared is not None else ""
    if tool not in ("npm", "pnpm", "yarn", "bun"):
        tool = next(
            (name for lock, name in _LOCKS if os.path.exists(os.path.join(folder, lock))), "npm"
        )
    scripts = document.get("scripts")
    if scripts is None:
        return found
    servers = [name for name, _ in scripts.items() if _SERVERS.match(name)]
    has_dev = any(name == "dev" or name.startswith("dev:") for name in servers)
    for name, script in scripts.items():
        if name not in servers:
            found.lose(
                script.line,
                f"script {name}",
                f"run it when needed: holdfast run -- {tool} run {name}",
            )
            continue
        keys: dict[str, object] = {"command": [tool, "run", name]}
        if has_dev and not name.startswith("dev"):
            # start and serve are the same server for production.
            keys["autostart"] = False
        found.add(name.replace(":", "-"), keys, script.line)
    return found
