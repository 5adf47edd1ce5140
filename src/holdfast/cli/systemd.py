"""What the command line asks of systemd, and what a stop of our unit does to its services.

The one place of the command line that runs a program: `settings_of` and `verify` only read, `ask`
enables and disables a unit for `install-service`. Everything else decides about text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

PROPERTIES = "Type,KillMode,Delegate,ExecStart,ExecStop"
GUIDE = "docs/guides/starting-at-boot.md"
_ASK_SECONDS = 5.0
_CHANGE_SECONDS = 60.0
_NOT_KILLED = ("process", "none")


class Unit(NamedTuple):
    """A unit, and whether it belongs to the user's own systemd."""

    name: str
    is_user: bool

    @property
    def systemctl(self) -> str:
        return "systemctl --user" if self.is_user else "systemctl"


class SystemdFinding(NamedTuple):
    """Level, finding and fix, as `doctor` shows them."""

    level: str
    found: str
    fix: str = ""


def unit_of(cgroups: str) -> Unit | None:
    """The innermost unit in the text of `/proc/PID/cgroup`."""
    for line in sorted(cgroups.splitlines()):  # cgroup v2 is number 0
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        parts = path.split("/")
        units = [part for part in parts if part.endswith((".service", ".scope"))]
        if units and (number == "0" or controllers == "name=systemd"):
            is_user = any(unit.startswith("user@") for unit in units[:-1])
            return Unit(units[-1], is_user)
    return None


def judge(unit: Unit, settings: Mapping[str, str] | None, *, lingers: bool) -> SystemdFinding:
    """Judge a unit by its settings, as systemctl shows them; None if it shows nothing."""
    if unit.name.endswith(".scope"):
        if unit.is_user and not lingers:
            keep = "`loginctl enable-linger` keeps it"
            return SystemdFinding(
                "ok", f"in {unit.name}: it ends when you log out everywhere; {keep}"
            )
        return SystemdFinding("ok", f"in {unit.name}, which ends with its last process")
    if settings is None:
        return SystemdFinding(
            "warn",
            f"inside {unit.name}; what its stop does to services is unknown",
            f"{unit.systemctl} show -p {PROPERTIES} {unit.name}; see {GUIDE}",
        )
    if "holdfast" in settings.get("ExecStart", ""):
        return _judge_own_unit(unit, settings, lingers=lingers)
    if settings.get("KillMode") in _NOT_KILLED:
        return SystemdFinding("ok", f"in {unit.name}, whose stop leaves services alone")
    scope = f"systemd-run{' --user' if unit.is_user else ''} --scope -p Delegate=yes"
    return SystemdFinding(
        "warn",
        f"inside {unit.name}: stopping or restarting it kills every service Holdfast holds",
        f"holdfast down, then: {scope} holdfast up -d; or give it its own unit, see {GUIDE}",
    )


def _judge_own_unit(unit: Unit, settings: Mapping[str, str], *, lingers: bool) -> SystemdFinding:
    has_down = "holdfast" in (end := settings.get("ExecStop", "")) and "down" in end
    is_foreground = settings.get("Type") not in ("oneshot", "forking")
    kill = settings.get("KillMode")
    if not has_down and not is_foreground and kill in _NOT_KILLED:
        verdict = SystemdFinding("ok", f"in {unit.name}, whose stop leaves services alone")
    elif has_down or (is_foreground and kill in ("mixed", *_NOT_KILLED)):
        verdict = SystemdFinding("ok", f"in {unit.name}, whose stop is `holdfast down`")
    else:
        fix = "KillMode=mixed" if is_foreground else "ExecStop=holdfast down"
        return SystemdFinding(
            "warn",
            f"in {unit.name}, whose stop signals every service at once, in no order",
            f"{unit.systemctl} edit {unit.name}: {fix} below [Service]; see {GUIDE}",
        )
    if settings.get("Delegate") != "yes":
        return SystemdFinding(
            "warn",
            f"{verdict.found}; without Delegate=yes systemd may change the cgroups of services",
            f"{unit.systemctl} edit {unit.name}: Delegate=yes below [Service]",
        )
    if unit.is_user and not lingers:
        return SystemdFinding(
            "warn", f"{verdict.found}; it ends when you log out", "loginctl enable-linger"
        )
    return verdict


def parse(shown: str) -> dict[str, str]:
    """Read the output of `systemctl show`: lines NAME=VALUE, those of one name joined."""
    settings: dict[str, str] = {}
    for line in shown.splitlines():
        name, sign, value = line.partition("=")
        if sign:
            settings[name] = f"{settings[name]} {value}" if name in settings else value
    return settings


def settings_of(unit: Unit) -> dict[str, str] | None:
    """Ask systemd for the settings of the unit; None if it cannot be asked."""
    import subprocess

    words = [*unit.systemctl.split(), "show", "-p", PROPERTIES, "--", unit.name]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_ASK_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return parse(done.stdout) or None


def is_booted() -> bool:
    """Return whether systemd runs this machine."""
    return os.path.isdir("/run/systemd/system")


def verify(path: str) -> str:
    """Return what systemd has against a unit's file; nothing where it cannot be asked."""
    told = _run(["systemd-analyze", "verify", "--man=no", path])
    return " ".join(line for line in told.splitlines() if path in line)


def ask(is_system: bool, *words: str) -> str:
    """Let systemctl do something; return what it complains about."""
    return _run(["systemctl", *([] if is_system else ["--user"]), *words], is_change=True)


def _run(words: list[str], *, is_change: bool = False) -> str:
    """Run a program of systemd; return what it wrote to standard error if it failed."""
    import subprocess

    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_CHANGE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return str(error) if is_change else ""
    return done.stderr.strip() or "it failed" if done.returncode else ""
