"""`doctor` on systemd: which unit a Holdfast is in, and what its stop would do. Over texts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.cli import doctor, systemd
from holdfast.cli.systemd import Unit, judge, parse, unit_of

USER = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("cgroups", "unit"),
    [
        ("0::/system.slice/runner.service\n", Unit("runner.service", False)),
        ("0::/system.slice/shop.service/keeper\n", Unit("shop.service", False)),
        (f"0::{USER}/app.slice/shop.service\n", Unit("shop.service", True)),
        (f"0::{USER}/app.slice/vte-spawn-1.scope\n", Unit("vte-spawn-1.scope", True)),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", Unit("session-3.scope", False)),
        ("12:pids:/x.service\n1:name=systemd:/system.slice/a.service\n", Unit("a.service", False)),
        ("0::/\n", None),
        ("0::/docker/0123abcd\n", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_the_unit(cgroups: str, unit: Unit | None) -> None:
    """The innermost one, in every way that the kernel tells of cgroups."""
    assert unit_of(cgroups) == unit


def shown(**settings: str) -> dict[str, str]:
    return {"Type": "simple", "KillMode": "control-group", "Delegate": "yes", **settings}


UP = "{ path=/usr/bin/holdfast ; argv[]=/usr/bin/holdfast up ; ignore_errors=no }"
DOWN = "{ path=/usr/bin/holdfast ; argv[]=/usr/bin/holdfast down ; ignore_errors=no }"


@pytest.mark.parametrize(
    ("settings", "level", "words"),
    [
        (None, "warn", "is unknown"),
        (shown(ExecStart="{ path=/opt/runner }"), "warn", "kills every service"),
        (shown(ExecStart="{ path=/opt/runner }", KillMode="mixed"), "warn", "kills every service"),
        (
            shown(ExecStart="{ path=/opt/runner }", KillMode="process"),
            "ok",
            "leaves services alone",
        ),
        (shown(ExecStart=UP, KillMode="mixed"), "ok", "stop is `holdfast down`"),
        (shown(ExecStart=UP), "warn", "at once, in no order"),
        (shown(ExecStart=UP, Type="oneshot", KillMode="mixed"), "warn", "at once, in no order"),
        (shown(ExecStart=UP, Type="oneshot", KillMode="process"), "ok", "leaves services alone"),
        (shown(ExecStart=UP, Type="oneshot", ExecStop=DOWN), "ok", "stop is `holdfast down`"),
        (shown(ExecStart=UP, ExecStop=DOWN, Delegate="no"), "warn", "without Delegate=yes"),
    ],
)
def test_a_service(settings: dict[str, str] | None, level: str, words: str) -> None:
    """Told is whether its stop ends services, and in which order; a warning has a way out."""
    found = judge(Unit("shop.service", False), settings, lingers=False)
    assert found.level == level
    assert words in found.found
    assert bool(found.fix) == (level == "warn")


def test_logging_out() -> None:
    """What belongs to a login ends with the last one, unless the user lingers."""
    own = shown(ExecStart=UP, KillMode="mixed")
    assert judge(Unit("shop.service", True), own, lingers=False).fix == "loginctl enable-linger"
    assert judge(Unit("shop.service", True), own, lingers=True).level == "ok"
    assert "log out" in judge(Unit("vte-1.scope", True), None, lingers=False).found
    assert judge(Unit("session-1.scope", False), None, lingers=False).level == "ok"


def test_what_systemctl_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is a setting; a systemctl that fails, or is not there, is no answer."""
    text = f"Type=oneshot\nKillMode=mixed\nExecStop={DOWN}\nExecStop=second\n\nnonsense\n"
    assert parse(text) == {"Type": "oneshot", "KillMode": "mixed", "ExecStop": f"{DOWN} second"}
    monkeypatch.setenv("PATH", str(tmp_path))
    unit = Unit("shop.service", True)
    assert systemd.settings_of(unit) is None
    program = tmp_path / "systemctl"
    program.write_text('#!/bin/sh\n[ "$1" = --user ] && echo "KillMode=mixed"\n')
    program.chmod(0o755)
    assert systemd.settings_of(unit) == {"KillMode": "mixed"}
    assert systemd.settings_of(Unit("shop.service", False)) is None


def test_doctor_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the process that is asked about; nothing where systemd does not run."""
    cgroup = tmp_path / "cgroup"
    cgroup.write_text("0::/system.slice/runner.service\n")
    monkeypatch.setattr(systemd, "settings_of", lambda _: shown(ExecStart="/opt/runner"))
    (check,) = doctor.check_systemd(str(cgroup), is_booted=True)
    assert (check.name, check.level) == ("systemd", "warn")
    assert "runner.service" in check.found
    assert not list(doctor.check_systemd(str(cgroup), is_booted=False))
    assert not list(doctor.check_systemd(os.devnull, is_booted=True))
