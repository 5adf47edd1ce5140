"""In which systemd unit a Holdfast is, and what a stop of that unit does to its services.

All decisions are about texts. Only `settings_of` runs a program: `systemctl show`, which reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PROPERTIES = "Type,KillMode,Delegate,ExecStart,ExecStop"
GUIDE = "docs/guides/starting-at-boot.md"
_ASK_SECONDS = 5.0
_NOT_KILLED = ("process", "none")


class Unit(NamedTuple):
    """A unit, and whether it is of the user's own manager."""

    name: str
    is_user: bool

    @property
    def systemctl(self) -> str:
        return "systemctl --user" if self.is_user else "systemctl"


class Judgement(NamedTuple):
    """As `doctor` tells it."""

    level: str
    found: str
    fix: str = ""


def unit_of(cgroups: str) -> Unit | None:
    """The innermost unit that `/proc/PID/cgroup` tells of."""
    for line in sorted(cgroups.splitlines()):  # cgroup v2 is number 0
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        parts = path.split("/")
        units = [part for part in parts if part.endswith((".service", ".scope"))]
        if units and (number == "0" or controllers == "name=systemd"):
            is_user = any(unit.startswith("user@") for unit in units[:-1])
            return Unit(units[-1], is_user)
    return None


def judge(unit: Unit, settings: Mapping[str, str] | None, *, lingers: bool) -> Judgement:
    """`settings` are what systemctl tells of the unit, None if it tells nothing."""
    if unit.name.endswith(".scope"):
        if unit.is_user and not lingers:
            keep = "`loginctl enable-linger` keeps it"
            return Judgement("ok", f"in {unit.name}: it ends when you log out everywhere; {keep}")
        return Judgement("ok", f"in {unit.name}, which ends with its last process")
    if settings is None:
        return Judgement(
            "warn",
            f"inside {unit.name}; what its stop does to services is unknown",
            f"{unit.systemctl} show -p {PROPERTIES} {unit.name}; see {GUIDE}",
        )
    if "holdfast" in settings.get("ExecStart", ""):
        return _of_its_own(unit, settings, lingers=lingers)
    if settings.get("KillMode") in _NOT_KILLED:
        return Judgement("ok", f"in {unit.name}, whose stop leaves services alone")
    scope = f"systemd-run{' --user' if unit.is_user else ''} --scope -p Delegate=yes"
    return Judgement(
        "warn",
        f"inside {unit.name}: stopping or restarting it kills every service Holdfast holds",
        f"holdfast down, then: {scope} holdfast up -d; or give it its own unit, see {GUIDE}",
    )


def _of_its_own(unit: Unit, settings: Mapping[str, str], *, lingers: bool) -> Judgement:
    has_down = "holdfast" in (end := settings.get("ExecStop", "")) and "down" in end
    is_foreground = settings.get("Type") not in ("oneshot", "forking")
    kill = settings.get("KillMode")
    if not has_down and not is_foreground and kill in _NOT_KILLED:
        told = Judgement("ok", f"in {unit.name}, whose stop leaves services alone")
    elif has_down or (is_foreground and kill in ("mixed", *_NOT_KILLED)):
        told = Judgement("ok", f"in {unit.name}, whose stop is `holdfast down`")
    else:
        fix = "KillMode=mixed" if is_foreground else "ExecStop=holdfast down"
        return Judgement(
            "warn",
            f"in {unit.name}, whose stop signals every service at once, in no order",
            f"{unit.systemctl} edit {unit.name}: {fix} below [Service]; see {GUIDE}",
        )
    if settings.get("Delegate") != "yes":
        return Judgement(
            "warn",
            f"{told.found}; without Delegate=yes systemd may change the cgroups of services",
            f"{unit.systemctl} edit {unit.name}: Delegate=yes below [Service]",
        )
    if unit.is_user and not lingers:
        return Judgement(
            "warn", f"{told.found}; it ends when you log out", "loginctl enable-linger"
        )
    return told


def parsed(shown: str) -> dict[str, str]:
    """What `systemctl show` printed: NAME=VALUE a line, several lines of a name joined."""
    settings: dict[str, str] = {}
    for line in shown.splitlines():
        name, sign, value = line.partition("=")
        if sign:
            settings[name] = f"{settings[name]} {value}" if name in settings else value
    return settings


def settings_of(unit: Unit) -> dict[str, str] | None:
    """What systemd says of the unit; None where it cannot be asked."""
    import subprocess

    words = [*unit.systemctl.split(), "show", "-p", PROPERTIES, "--", unit.name]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_ASK_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return parsed(done.stdout) or None
