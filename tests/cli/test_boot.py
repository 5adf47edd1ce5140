"""`holdfast install-service` writes a unit that systemd accepts, or a launch agent."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.cli import boot, systemd
from holdfast.cli.boot import BootService, installed, judge_installed, text_of
from holdfast.cli.call import Call
from holdfast.cli.main import main
from holdfast.cli.parser.arguments import parse

SIMPLE = (
    "Description=", "After=network.target", "Type=simple", "User=", "Group=", "WorkingDirectory=",
    "ExecStart=", "Restart=always", "RestartSec=5", "Environment=SUPERVISOR_LOG_LEVEL=info",
    "Environment=SUPERVISOR_PORT=8081", "WantedBy=multi-user.target",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a project of its own; systemd is not asked to enable anything."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(boot, "SYSTEM_UNITS", str(tmp_path / "etc"))
    monkeypatch.setattr(systemd, "is_booted", lambda: False)
    (tmp_path / "my shop").mkdir()
    (tmp_path / "my shop" / "holdfast.yaml").write_text("services: {web: sleep 600}\n")
    return tmp_path


def service_of(home: Path, *words: str, is_mac: bool = False) -> BootService:
    call = Call(parse(["-C", str(home / "my shop"), "install-service", *words]), os.environ)
    return BootService(call, is_mac=is_mac)


@pytest.mark.parametrize("style", ["oneshot", "simple"])
@pytest.mark.parametrize("scope", ["--user", "--system"])
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(home: Path, scope: str, style: str) -> None:
    """`systemd-analyze verify` says nothing about the file."""
    service = service_of(home, scope)
    path = home / service.unit
    path.write_text(text_of(service, style))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert str(path) not in done.stderr
    assert f"WorkingDirectory={home}/my shop" in path.read_text()


def test_the_simple_style_has_every_key(home: Path) -> None:
    """The unit that watches `up` itself, with the keys that people expect of it."""
    text = text_of(service_of(home, "--system"), "simple")
    assert [key for key in SIMPLE if f"\n{key}" not in text] == []


def test_launch_agent(home: Path) -> None:
    """launchd reads a property list; `up` in the foreground is ended by SIGTERM."""
    service = service_of(home, "--user", "--name", "shop", is_mac=True)
    keys = plistlib.loads(text_of(service, "oneshot").encode())
    assert keys["Label"] == "holdfast.shop"
    assert keys["ProgramArguments"][-2:] == ["up", "--unless-stopped"]
    assert keys["WorkingDirectory"] == f"{home}/my shop"
    assert service.path.endswith("Library/LaunchAgents/holdfast.shop.plist")


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="units are of Linux")
def test_install_and_uninstall(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second call changes nothing, `--print` writes nothing, uninstall removes only ours."""
    call = ["-C", str(home / "my shop"), "install-service", "--user"]
    unit = home / "home/.config/systemd/user/my-shop.service"
    assert main([*call, "--print"]) == 0
    printed = capsys.readouterr().out
    assert not unit.exists()
    assert main(call) == 0
    told = capsys.readouterr().out
    assert f"wrote {unit}" in told
    assert "systemd does not run here" in told
    assert unit.read_text() == printed
    assert main(call) == 0
    assert "is up to date" in capsys.readouterr().out
    remove = ["-C", str(home / "my shop"), "uninstall-service", "--user"]
    assert main(remove) == 0
    assert not unit.exists()
    assert main(remove) == 0
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    capsys.readouterr()
    assert main(call) == 1
    assert main(remove) == 1
    assert "written by somebody else" in capsys.readouterr().err
    assert unit.exists()


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="units are of Linux")
def test_doctor_finds_the_unit(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A unit that is not enabled, or whose program is gone, is told with the fix."""
    assert main(["-C", str(home / "my shop"), "install-service", "--user"]) == 0
    capsys.readouterr()
    (found,) = installed(str(home / "my shop"), str(home / "home"))
    path, text = found
    link = Path(path).parent / "default.target.wants" / "my-shop.service"
    program = home / "holdfast"
    program.touch(0o755)
    text = "\n".join(
        f"ExecStart={program} up" if line.startswith("ExecStart=") else line
        for line in text.splitlines()
    )
    assert judge_installed(path, text)[:2] == ("warn", "my-shop.service is not enabled")
    link.parent.mkdir()
    link.symlink_to(path)
    assert judge_installed(path, text)[0] == "ok"
    program.unlink()
    level, told, fix = judge_installed(path, text)
    assert (level, "is not there" in told) == ("warn", True)
    assert "install-service" in fix
    assert list(installed(str(home), str(home / "home"))) == []
