"""`holdfast mcp import`: what clients have becomes a configuration that `check` accepts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.cli.main import main

TOKEN = "ghp_" + "a1B2" * 9
CLAUDE = {
    "mcpServers": {
        "GitHub": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"GITHUB_TOKEN": TOKEN, "MODE": "${MODE:-plain}", "PLAIN": "$5"},
        },
        "holdfast": {"command": "/usr/local/bin/holdfast", "args": ["mcp"]},
        "docs": {
            "type": "http",
            "url": "https://docs.example/mcp",
            "headers": {"Authorization": "Bearer abcDEF123456789xyz"},
            "headersHelper": "./headers.sh",
            "timeout": 90000,
            "alwaysLoad": True,
        },
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "key": {"command": "server", "args": ["--api-key=abc123DEF456", "--token", "s3cretS3cret"]},
    }
}
CURSOR = {
    "mcpServers": {
        "github2": CLAUDE["mcpServers"]["GitHub"],
        "files": {
            "command": "node",
            "args": ["${workspaceFolder}/server.js", "${userHome}", "${env:SET_HERE}"],
            "envFile": "${workspaceFolder}/.env.local",
        },
        "web": {"url": "https://web.example/mcp"},
    }
}
VSCODE = """{
    // what VS Code calls servers
    "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
    "servers": {
        "perplexity": {
            "type": "stdio", "command": "npx", "args": ["-y", "perplexity", "//not a comment"],
            "env": {"API_KEY": "${input:api-key}",},
            "sandboxEnabled": true, /* and more */
            "dev": {"watch": "src/**"},
        },
        "pipe": {"type": "http", "url": "unix:///tmp/mcp.sock"},
    },
}"""
CODEX = """
[mcp_servers.figma]
url = "https://figma.example/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Team" = "SET_HERE" }
tool_timeout_sec = 30
[mcp_servers.local]
command = "uvx"
args = ["mcp-server-time", "${LITERAL}"]
env_vars = ["SET_HERE"]
startup_timeout_sec = 12.5
enabled = false
enabled_tools = ["a", "b"]
disabled_tools = ["b"]
cwd = "sub"
"""
GEMINI = {
    "theme": "dark",
    "mcpServers": {
        "events": {"url": "https://events.example/sse"},
        "http": {"httpUrl": "https://http.example/mcp", "includeTools": ["x"], "trust": True},
        "shell": {
            "command": "run",
            "env": {"A": "$SET_HERE", "B": "${UNSET_HERE}"},
            "timeout": 900,
        },
    },
}
OPENCODE = {
    "mcp": {
        "jira": {
            "type": "local", "command": ["npx", "-y", "jira"], "enabled": True,
            "environment": {"JIRA_TOKEN": "{env:SET_HERE}", "JIRA_PASSWORD": "hunter22"},
        },
        "off": {"type": "remote", "url": "https://off.example/mcp", "enabled": False},
        "sentry": {"type": "remote", "url": "https://sentry.example/mcp", "oauth": {}},
    }
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("SET_HERE", "here")
    for name in ("FIGMA_TOKEN", "UNSET_HERE", "MODE"):
        monkeypatch.delenv(name, raising=False)
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env.local").write_text("A=1\n")
    (project / "sub").mkdir()
    monkeypatch.chdir(project)
    return tmp_path


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def put_all(home: Path) -> None:
    project = home / "project"
    put(project / ".mcp.json", CLAUDE)
    put(project / ".cursor" / "mcp.json", CURSOR)
    put(project / ".vscode" / "mcp.json", VSCODE)
    put(project / ".gemini" / "settings.json", GEMINI)
    put(project / "opencode.json", OPENCODE)
    if sys.version_info >= (3, 11):
        put(project / ".codex" / "config.toml", CODEX)


def test_six_files_become_one_configuration(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` accepts it, every other line stays, and no secret is in it."""
    put_all(home)
    config = home / "project" / "holdfast.yaml"
    before = (
        "# mine\nservices:\n  web: python -m http.server  # as ever\nmcp_servers:\n    kept: ./it\n"
    )
    config.write_text(before)
    config.chmod(0o640)
    assert main(["mcp", "import", "--write"]) == 0
    told = capsys.readouterr()
    text = config.read_text()
    assert text.startswith(before.partition("    kept")[0])
    assert "# as ever" in text
    assert "    kept: ./it\n" in text
    assert config.stat().st_mode & 0o777 == 0o640
    assert (home / "project" / "holdfast.yaml.backup-1").read_text() == before
    for secret in (TOKEN, "abcDEF123456789xyz", "abc123DEF456", "s3cretS3cret", "hunter22"):
        assert secret not in text
        assert secret not in told.out + told.err
    files = list((home / ".config" / "holdfast" / "secrets").rglob("*-*"))
    kept = [file for file in files if file.is_file()]
    assert {file.stat().st_mode & 0o777 for file in kept} == {0o600}
    assert TOKEN in {file.read_text().strip() for file in kept}
    assert main(["check"]) == 0, capsys.readouterr()
    servers = yaml.safe_load(text)["mcp_servers"]
    assert "holdfast" not in servers
    assert "old" not in servers
    assert "github2" not in servers, "the same command twice"
    assert servers["github"]["env"]["MODE"] == "${MODE:-plain}"
    assert servers["docs"] | {"headers": None} == {
        "url": "https://docs.example/mcp", "headers": None, "call_timeout": "90s", "always": ["*"],
    }  # fmt: skip
    assert servers["files"]["command"] == ["node", "./server.js", "${HOME}", "${SET_HERE}"]
    assert servers["files"]["env_file"] == ["./.env.local"]
    assert servers["web-2"] == {"url": "https://web.example/mcp"}
    assert servers["perplexity"]["command"][-1] == "//not a comment"
    assert servers["perplexity"]["env"] == {"API_KEY": "${API_KEY:-}"}
    assert servers["http"] == {"url": "https://http.example/mcp", "allow": ["x"]}
    assert servers["shell"]["env"] == {"A": "${SET_HERE}", "B": "${UNSET_HERE:-}"}
    assert servers["shell"]["call_timeout"] == "900ms"
    assert servers["jira"]["env"]["JIRA_TOKEN"] == "${SET_HERE}"
    assert "file" in servers["jira"]["env"]["JIRA_PASSWORD"]
    assert servers["sentry"] == {"url": "https://sentry.example/mcp", "auth": "oauth"}
    if sys.version_info >= (3, 11):
        assert servers["local"] == {
            "command": ["uvx", "mcp-server-time", "$${LITERAL}"],
            "enabled": False,
            "env": {"SET_HERE": None},
            "start_timeout": "12500ms",
            "allow": ["a", "b"],
            "deny": ["b"],
            "working_dir": "sub",
        }
        assert servers["figma"]["headers"] == {
            "Authorization": "Bearer ${FIGMA_TOKEN:-}", "X-Region": "eu", "X-Team": "${SET_HERE}",
        }  # fmt: skip
    for loss in ("headersHelper", "older SSE", "sandboxEnabled", "dev.watch", "unix://", "trust"):
        assert loss in told.err, loss
    for variable in ("API_KEY", "UNSET_HERE", "KEY_API_KEY", "KEY_ARGUMENT_3"):
        assert variable in told.err, variable
    assert main(["mcp", "import", "--write"]) == 0
    assert config.read_text() == text, "known names are skipped"


def test_shown_first(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --write nothing is changed, and the YAML is shown."""
    put(home / "project" / ".mcp.json", CLAUDE)
    assert main(["mcp", "import", "claude"]) == 0
    assert "docs" in yaml.safe_load(capsys.readouterr().out)["mcp_servers"]
    assert sorted(path.name for path in (home / "project").iterdir()) == [
        ".env.local", ".mcp.json", "sub",
    ]  # fmt: skip
    assert main(["--json", "mcp", "import", ".mcp.json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert TOKEN not in json.dumps(told)
    assert {loss["server"] for loss in told["losses"]} >= {"GitHub", "docs", "old", "key"}


def test_the_users_file_holds_projects(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of `~/.claude.json` come the servers of all projects and those of this one."""
    project = str((home / "project").resolve())
    put(
        home / ".claude.json",
        {
            "mcpServers": {"everywhere": {"command": "a"}},
            "projects": {
                project: {"mcpServers": {"here": {"command": "b"}}},
                "/elsewhere": {"mcpServers": {"there": {"command": "c"}}},
            },
        },
    )
    assert main(["mcp", "import"]) == 0
    assert list(yaml.safe_load(capsys.readouterr().out)["mcp_servers"]) == ["everywhere", "here"]


@pytest.mark.parametrize("text", ["mcp_servers: {a: ./b}\n", "{services: {}}\n"])
def test_what_cannot_be_added_to_stays(
    text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration in another form is left as it is, and so are the secrets."""
    put(home / "project" / ".mcp.json", CLAUDE)
    config = home / "project" / "holdfast.yaml"
    config.write_text(text)
    assert main(["mcp", "import", "--write"]) == 1
    assert "by hand" in capsys.readouterr().err
    assert config.read_text() == text
    assert not (home / ".config").exists()


@pytest.mark.parametrize("content", ["[1]", "{", '{"mcpServers": [1]}', '{"mcpServers": {"a": 1}}'])
def test_damaged_files_are_refused_or_told(
    content: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and no half of a configuration."""
    put(home / "project" / ".mcp.json", content)
    code = main(["mcp", "import", "--write"])
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert code == (2 if content in ("[1]", "{") else 0)
    assert not (home / "project" / "holdfast.yaml").exists()
