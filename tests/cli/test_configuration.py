"""`holdfast check`: what is wrong with a configuration, with nothing running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from holdfast.cli.main import main
from holdfast.system.places import find_places

PRESENT = "services:\n  web: sleep 100\n  db: {command: sleep 100, env: {TOKEN: '${SECRET}'}}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, and nothing that it could write to unseen."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("SECRET", "hunter2hunter2")
    # It takes the path of imports over, as the program that it is.
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "holdfast.yaml").write_text(PRESENT)
    monkeypatch.chdir(folder)
    return folder


def test_what_is_in_order(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of what is declared, no values; nothing is written or started."""
    assert main(["check"]) == 0
    assert capsys.readouterr().out == "holdfast.yaml is valid: 2 services\n  web\n  db\n"
    assert main(["check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["services"] == ["web", "db"]
    assert "hunter2" not in str(found)
    assert [path.name for path in project.parent.iterdir()] == ["project"]


def test_what_is_surely_not_meant(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning on standard error, beside the result; the exit code is that of success."""
    (project / "other.yaml").write_text("services:\n  web: ls $HOME/*\n")
    assert main(["check", "-c", "other.yaml"]) == 0
    said = capsys.readouterr()
    assert said.out == "other.yaml is valid: 1 service\n  web\n"
    assert "warning: other.yaml:2:8: services.web.command: without a shell" in said.err


def test_every_mistake_at_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its place and what to write; exit code 7."""
    text = "services:\n  web: {comand: x}\n  db: {command: y, stop: {grace: soon}}\n"
    (project / "other.yaml").write_text(text)
    assert main(["check", "-c", "other.yaml"]) == 7
    said = capsys.readouterr().err
    for words in ("other.yaml:2", 'did you mean "command"', "other.yaml:3", '"soon"'):
        assert words in said
    assert main(["check", "-c", "other.yaml", "--json"]) == 7
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "configuration"


def test_a_pipe_is_no_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not waited for, and not said to be missing."""
    os.mkfifo(project / "pipe.yaml")
    assert main(["check", "-c", "pipe.yaml"]) == 7
    assert "pipe.yaml is no regular file" in capsys.readouterr().err


def test_settings_of_the_command_line_count(project: Path) -> None:
    """As they would for `up`."""
    assert main(["check", "--port", "8090"]) == 0
    assert main(["check", "--log-level", "loud"]) == 2


def test_no_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Says how to get one."""
    (project / "holdfast.yaml").unlink()
    assert main(["check"]) == 7
    assert "holdfast init" in capsys.readouterr().err
    state = Path(find_places(str(project), os.environ).state)
    state.mkdir(parents=True)
    (state / "holdfast.db").touch()
    assert main(["check"]) == 7, "what `run` brought in is not declared anywhere"


def test_modules_of_the_project_are_not_imported(project: Path) -> None:
    """Also where Python looks into the current folder first."""
    (project / "yaml.py").write_text("raise SystemExit('taken')\n")
    (project / "msgspec.py").write_text("raise SystemExit('taken')\n")
    command = [sys.executable, "-m", "holdfast", "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_config_shows_each_value_with_its_place(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has to run; the output is YAML, secrets are hidden, and defaults are shown on
    request."""
    (project / "web.env").write_text("COLOUR=red\nAPI_KEY=abcdefghijkl\n")
    (project / "holdfast.yaml").write_text(
        "restart: {delay: 1s}\n"
        "services:\n"
        "  web:\n"
        "    command: sleep ${SECONDS:-100}\n"
        "    env_file: [web.env]\n"
        "    env: {TOKEN: '${SECRET}'}\n"
        "    restart: always\n"
        "  db: sleep 100\n"
    )
    assert main(["config", "web"]) == 0
    said = capsys.readouterr().out
    assert yaml.safe_load(said) == {
        "services": {
            "web": {
                "command": "sleep 100",
                "env_file": ["web.env"],
                "env": {"TOKEN": "[hidden]", "COLOUR": "red", "API_KEY": "[hidden]"},
                "restart": {"policy": "always", "delay": "1s"},
            }
        }
    }
    places = {
        line.split(":")[0].strip(): line.partition("# ")[2]
        for line in said.splitlines()
        if "# " in line
    }
    assert places == {
        "command": "holdfast.yaml:4, ${SECONDS}",
        "env_file": "holdfast.yaml:5",
        "TOKEN": "holdfast.yaml:6, ${SECRET}",
        "COLOUR": "web.env",
        "API_KEY": "web.env",
        "policy": "holdfast.yaml:7",
        "delay": "holdfast.yaml:1",
    }
    assert main(["config", "--defaults", "--port", "9000"]) == 0
    said = capsys.readouterr().out
    whole = yaml.safe_load(said)
    assert whole["port"] == 9000
    assert whole["services"]["db"]["stop"] == {"signal": "SIGTERM", "grace": "5s"}
    assert "# --port" in said
    assert "hunter2" not in said
    assert main(["config", "nobody"]) == 3
    capsys.readouterr()
    assert main(["config", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(file).name for file in found["files"]] == ["holdfast.yaml", "web.env"]
    assert found["values"][0] == {
        "path": ["restart", "delay"],
        "value": "1s",
        "source": "file",
        "file": str(project / "holdfast.yaml"),
        "line": 1,
        "given_by": None,
        "variables": [],
    }
