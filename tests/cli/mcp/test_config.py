"""`holdfast mcp config`: shown, or put into the client's file without harm to the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.mcp.verb import parse_toolsets
from holdfast.system.assistant_programs import PROGRAMS
from holdfast.vocabulary.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "project"
    project.mkdir()
    (project / "holdfast.yaml").write_text("services: {}\n")
    monkeypatch.chdir(project)
    return tmp_path


@pytest.mark.parametrize("client", PROGRAMS)
def test_every_client_is_shown_and_written(
    client: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file then says how to start the line, and a second time changes nothing."""
    assert main(["mcp", "config", client, "--start"]) == 0
    assert "mcp" in capsys.readouterr().out
    assert main(["mcp", "config", client, "--start", "--write"]) == 0
    assert main(["mcp", "config", client, "--start", "--write"]) == 0
    assert "says it already" in capsys.readouterr().out
    file = PROGRAMS[client].file
    path = home / file[2:] if file.startswith("~") else home / "project" / file
    text = path.read_text()
    assert "holdfast" in text
    assert "--start" in text
    assert path.stat().st_mode & 0o077 == 0


def test_what_is_there_stays_with_a_backup(home: Path) -> None:
    """Other servers, other keys, and what the user added to ours."""
    path = home / "project" / ".mcp.json"
    before = {"mcpServers": {"other": {"command": "x"}, "holdfast": {"env": {"A": "1"}}}, "k": 1}
    path.write_text(json.dumps(before))
    assert main(["mcp", "config", "claude", "--write"]) == 0
    after = json.loads(path.read_text())
    assert after["k"] == 1
    assert after["mcpServers"]["other"] == {"command": "x"}
    assert after["mcpServers"]["holdfast"]["env"] == {"A": "1"}
    assert after["mcpServers"]["holdfast"]["args"][-1] == "mcp"
    assert json.loads((home / "project" / ".mcp.json.backup-1").read_text()) == before


def test_toml_keeps_every_other_line(home: Path) -> None:
    """Comments, other tables, and lists over several lines."""
    path = home / "project" / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        '# mine\nmodel = "m"\n\n[mcp_servers.holdfast]\ncommand = "old"\nargs = [\n  "a",\n]\n'
        "startup_timeout_sec = 9\n\n[other]\nx = 1\n"
    )
    assert main(["mcp", "config", "codex", "--write", "--read-only"]) == 0
    text = path.read_text()
    assert text.startswith('# mine\nmodel = "m"\n')
    assert text.count("[mcp_servers.holdfast]") == 1
    assert '"old"' not in text
    assert '"a"' not in text
    assert "startup_timeout_sec = 9" in text
    assert text.rstrip().endswith("x = 1")
    assert '"--read-only"' in text


def test_a_file_with_comments_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what to add is told."""
    path = home / "project" / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text("// mine\n{}\n")
    assert main(["mcp", "config", "vscode", "--write"]) == 1
    assert path.read_text() == "// mine\n{}\n"
    assert "by hand" in capsys.readouterr().err


def test_an_unknown_client_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the one that was probably meant."""
    assert main(["mcp", "config", "cluade"]) == 2
    assert 'did you mean "claude"' in capsys.readouterr().err


OURS = '"command" = "y"\n'
ODD_TOML = (
    '[mcp_servers."holdfast"]\ncommand = "x"\n',
    '[ mcp_servers . holdfast ]\ncommand = "x"\n',
    '[mcp_servers]\nholdfast = { command = "x" }\n',
    'mcp_servers.holdfast.command = "x"\n',
    'mcp_servers = { other = { command = "x" } }\n',
    'text = """\n[mcp_servers.holdfast]\ncommand = "keep"\n"""\n',
    '[mcp_servers.holdfast]\nargs = [\n "a]b",\n "c",\n]\n',
    f"[mcp_servers.holdfast]\n{OURS}",
    "broken = [\n",
)
ODD_JSON = (
    '{"mcpServers": {"other": {"timeout": 1e400}}}',
    '{"mcpServers": {}, "a": 1, "a": 2}',
    '{"mcpServers": []}',
    "[]",
)


@pytest.mark.parametrize("text", [*ODD_TOML, *ODD_JSON])
@pytest.mark.parametrize("has_parser", [True, False])
def test_what_would_not_stay_as_it_is_is_left_alone(
    text: str, has_parser: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said in another way, or not understood: never harmed."""
    is_json = text in ODD_JSON
    if not has_parser:
        if "a]b" in text or OURS in text or "broken" in text:
            pytest.skip("takes a parser to see")
        monkeypatch.setitem(sys.modules, "tomllib", None)
    elif not is_json:
        pytest.importorskip("tomllib")
    path = home / "project/.mcp.json" if is_json else home / "project/.codex/config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert main(["mcp", "config", "claude" if is_json else "codex", "--write"]) == 1
    assert path.read_text() == text
    assert len(list(path.parent.glob(f"{path.name}*"))) == 1


@pytest.mark.parametrize("has_parser", [True, False])
def test_what_the_user_added_to_our_table_stays(
    has_parser: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its line ends; also where its key begins like one of ours."""
    if not has_parser:
        monkeypatch.setitem(sys.modules, "tomllib", None)
    path = home / "project/.codex/config.toml"
    path.parent.mkdir()
    added = b"command_timeout = 5\r\nargs_more = 1\r\n[mcp_servers.holdfast.env]\r\nA = 1\r\n"
    before = b'[mcp_servers.holdfast] # mine\r\ncommand = "x"\r\n' + added
    path.write_bytes(before)
    assert main(["mcp", "config", "codex", "--write"]) == 0
    assert added in path.read_bytes()
    assert b'command = "x"' not in path.read_bytes()
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert path.with_name("config.toml.backup-1").read_bytes() == before
    assert main(["mcp", "config", "codex", "--write", "--start"]) == 0


@pytest.mark.parametrize("text", ["nope", "process,nope", "", " , "])
def test_toolsets_are_named(text: str) -> None:
    """An assistant that is offered nothing would not know why."""
    with pytest.raises(UsageError, match="toolset"):
        parse_toolsets(text)
    assert parse_toolsets("git, process") == ["git", "process"]


def test_codex_lets_its_tools_pass(home: Path) -> None:
    """In the project's file: the approval mode, and the variables that tell where Holdfast runs.
    What the user changed of it stays."""
    assert main(["mcp", "config", "codex", "--write"]) == 0
    path = home / "project/.codex/config.toml"
    text = path.read_text()
    assert 'default_tools_approval_mode = "approve"' in text
    assert '"XDG_STATE_HOME"' in text
    path.write_text(text.replace('"approve"', '"prompt"'))
    assert main(["mcp", "config", "codex", "--write", "--start"]) == 0
    assert 'default_tools_approval_mode = "prompt"' in path.read_text()
    assert path.read_text().count("env_vars") == 1
    assert not (home / ".codex").exists()


@pytest.mark.parametrize("client", [name for name, one in PROGRAMS.items() if one.is_users])
def test_the_entry_of_another_project_stays(
    client: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file of the user each project has an entry of its own."""
    path = home / PROGRAMS[client].file[2:]
    assert main(["mcp", "config", client, "--write"]) == 0
    first = json.loads(path.read_text())[PROGRAMS[client].section]
    for folder in ("a/shop", "b/shop"):
        (home / folder).mkdir(parents=True)
        (home / folder / "holdfast.yaml").write_text("services: {}\n")
        monkeypatch.chdir(home / folder)
        for _ in range(2):
            assert main(["mcp", "config", client, "--write"]) == 0
    servers = json.loads(path.read_text())[PROGRAMS[client].section]
    assert list(servers) == ["holdfast", "holdfast-shop", "holdfast-shop-2"]
    assert servers["holdfast"] == first["holdfast"]
    assert str(home / "a/shop") in servers["holdfast-shop"]["args"]
    assert str(home / "b/shop") in servers["holdfast-shop-2"]["args"]
