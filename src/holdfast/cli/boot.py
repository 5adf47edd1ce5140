"""The verbs `install-service` and `uninstall-service`: Holdfast starts with the machine.

Writes the unit of the guide, or a launch agent. What is asked of systemd is in `cli/systemd.py`;
launchd is never asked, the command for it is told.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from holdfast.cli import systemd
from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.vocabulary.errors import Failed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK = "Written by `holdfast install-service`"
"""Stands in each file that is written. A file without it is never replaced."""
SYSTEM_UNITS, SYSTEM_AGENTS = "/etc/systemd/system", "/Library/LaunchDaemons"
_OPTIONS = (
    Option("--user", "for your user, which is the default unless root calls"),
    Option("--system", "for the whole system; only root can write there"),
    Option("--name", "the name of the unit; by default that of the folder", "NAME"),
)


class BootService:
    """What is to be written: for whom, where, and under which name."""

    def __init__(self, call: Call, *, is_mac: bool | None = None) -> None:
        options, environ = call.options, call.environ
        if options.get("user") and options.get("system"):
            raise UsageError("--user and --system exclude each other")
        self.is_mac = sys.platform == "darwin" if is_mac is None else is_mac
        self.is_system = bool(options.get("system")) or (
            os.geteuid() == 0 and not options.get("user")
        )
        self.folder = os.path.realpath(call.places.project)
        self.name = _plain_name(options.get("name") or os.path.basename(self.folder))
        self.config = options.get("config")
        self.user = self._user(environ) if self.is_system else None
        self.search_path = environ.get("PATH", "")
        self.home = environ.get("HOME") or os.path.expanduser("~")

    def _user(self, environ: Mapping[str, str]) -> tuple[str, str]:
        """The user and group that a service of the whole system runs as."""
        import grp
        import pwd

        name = environ.get("SUDO_USER") or pwd.getpwuid(os.getuid()).pw_name
        try:
            return name, grp.getgrgid(pwd.getpwnam(name).pw_gid).gr_name
        except KeyError:
            return name, name

    @property
    def path(self) -> str:
        if self.is_mac:
            own = os.path.join(self.home, "Library/LaunchAgents")
            return os.path.join(SYSTEM_AGENTS if self.is_system else own, f"{self.label}.plist")
        return os.path.join(units_folder(self.home, is_system=self.is_system), self.unit)

    @property
    def unit(self) -> str:
        return f"{self.name}.service"

    @property
    def label(self) -> str:
        return f"holdfast.{self.name}"

    @property
    def program(self) -> list[str]:
        """How Holdfast is called, without depending on anybody's PATH."""
        import shutil

        called = os.path.abspath(sys.argv[0])
        if os.path.basename(called) != "holdfast" or not os.access(called, os.X_OK):
            beside = os.path.join(os.path.dirname(sys.executable), "holdfast")
            called = beside if os.access(beside, os.X_OK) else shutil.which("holdfast") or ""
        return [called] if called else [sys.executable, "-m", "holdfast"]

    def command(self, *words: str) -> str:
        named = ["-c", os.path.abspath(self.config)] if self.config else []
        return " ".join(_quoted(word) for word in (*self.program, *named, *words))


def units_folder(home: str, *, is_system: bool) -> str:
    return SYSTEM_UNITS if is_system else os.path.join(home, ".config/systemd/user")


@Verb(
    "install-service",
    "Start Holdfast with the machine",
    options=(
        *_OPTIONS,
        Option("--style", "how systemd watches it: once it is up, or all the time",
               choices=("oneshot", "simple")),
        Option("--print", "print what would be written; change nothing"),
    ),
    about=(
        "Writes a systemd unit for this folder, lets systemd check it, and enables it; on macOS a\n"
        "launch agent. A second call changes only what is different. Nothing that runs is stopped."
    ),
    examples=(
        ("holdfast install-service", "for this folder, as your user"),
        ("sudo holdfast install-service --system", "for all users, before anybody logs in"),
        ("holdfast install-service --system --style simple --print", "look at it first"),
    ),
)  # fmt: skip
def install_service(call: Call) -> int:
    service = BootService(call)
    text = text_of(service, call.options.get("style") or "oneshot")
    if call.options.get("print"):
        if call.is_json:
            call.emit({"path": service.path, "text": text})
        else:
            call.say(text.rstrip("\n"))
        return 0
    is_new = _write(service, text)
    notes = [] if service.is_mac else _enable(service)
    if service.is_mac:
        domain = "system" if service.is_system else f"gui/{os.getuid()}"
        notes.append(f"start it: launchctl bootstrap {domain} {shlex.quote(service.path)}")
    if call.is_json:
        call.emit({"path": service.path, "changed": is_new, "notes": notes})
        return 0
    call.say(f"wrote {service.path}" if is_new else f"{service.path} is up to date")
    for note in notes:
        call.say(note)
    return 0


@Verb(
    "uninstall-service",
    "No longer start Holdfast with the machine",
    options=_OPTIONS,
    about="Removes what install-service wrote. What runs goes on; `holdfast down` stops it.",
    examples=(("holdfast uninstall-service", "for this folder"),),
)
def uninstall_service(call: Call) -> int:
    service = BootService(call)
    is_there = os.path.lexists(service.path)
    if is_there:
        _check_ours(service.path)
        if not service.is_mac and systemd.is_booted():
            systemd.ask(service.is_system, "disable", service.unit)
        os.unlink(service.path)
        if not service.is_mac and systemd.is_booted():
            systemd.ask(service.is_system, "daemon-reload")
    if call.is_json:
        call.emit({"path": service.path, "changed": is_there})
    elif is_there:
        call.say(f"removed {service.path}; what runs goes on")
    else:
        call.say(f"{service.path} is not there")
    return 0


def text_of(service: BootService, style: str) -> str:
    if service.is_mac:
        return _agent(service)
    return _simple_unit(service) if style == "simple" else _unit(service)


def _unit(service: BootService) -> str:
    lines = [f"# {MARK}", "[Unit]", f"Description=Services of {service.name}"]
    if service.is_system:
        lines += ["Wants=network-online.target", "After=network-online.target"]
    lines += ["", "[Service]", "Type=oneshot", "RemainAfterExit=yes"]
    if service.user is not None and service.user[0] != "root":
        lines.append(f"User={service.user[0]}")
    lines += [
        f"WorkingDirectory={_plain(service.folder)}",
        f"Environment={_quoted(f'PATH={service.search_path}')}",
        f"ExecStart={service.command('up', '-d', '--no-wait', '--unless-stopped')}",
        f"ExecReload={service.command('upgrade')}",
        f"ExecReload={service.command('reload', '--no-wait')}",
        f"ExecStop={service.command('down')}",
        "SuccessExitStatus=1",
        "KillMode=mixed",
        "Delegate=yes",
        "TimeoutStopSec=90",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if service.is_system else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def _simple_unit(service: BootService) -> str:
    user = service.user
    lines = [
        *(f"# {MARK}", "[Unit]", f"Description=Services of {service.name}"),
        *("After=network.target", "", "[Service]", "Type=simple"),
        *([f"User={user[0]}", f"Group={user[1]}"] if user is not None else []),
        f"WorkingDirectory={_plain(service.folder)}",
        f"ExecStart={service.command('up')}",
        *("Restart=always", "RestartSec=5", "KillMode=mixed", "Delegate=yes"),
        *("Environment=SUPERVISOR_LOG_LEVEL=info", "Environment=SUPERVISOR_PORT=8081"),
        f"Environment={_quoted(f'PATH={service.search_path}')}",
        *("", "[Install]"),
        f"WantedBy={'multi-user' if service.is_system else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def _agent(service: BootService) -> str:
    """launchd has no command for a stop: it sends SIGTERM, which is `down` for `up`."""
    import plistlib

    named = ["-c", os.path.abspath(service.config)] if service.config else []
    keys: dict[str, object] = {
        "Label": service.label,
        "ProgramArguments": [*service.program, *named, "up", "--unless-stopped"],
        "WorkingDirectory": service.folder,
        "EnvironmentVariables": {"PATH": service.search_path},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 90,
    }
    if service.user is not None and service.user[0] != "root":
        keys["UserName"] = service.user[0]
    text = plistlib.dumps(keys, sort_keys=False).decode()
    return text.replace("<plist ", f"<!-- {MARK} -->\n<plist ", 1)


def _write(service: BootService, text: str) -> bool:
    """Write the file; return whether anything changed."""
    path = service.path
    if os.path.lexists(path) and _check_ours(path) == text:
        return False
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        hint = "sudo holdfast install-service --system" if service.is_system else ""
        raise Failed(f"{path} cannot be written: {error.strerror}", hint) from None
    return True


def _check_ours(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if MARK not in text:
        raise Failed(f"{path} was written by somebody else", "name another one with --name")
    return text


def _enable(service: BootService) -> list[str]:
    """Let systemd check and enable the unit; return what is left to do."""
    told = systemd.verify(service.path)
    if told:
        raise Failed(f"systemd refuses {service.path}: {told}", "see `--print`")
    manager = "systemctl" if service.is_system else "systemctl --user"
    if not systemd.is_booted():
        return [f"systemd does not run here; where it does: {manager} enable {service.unit}"]
    for words in (("daemon-reload",), ("enable", service.unit)):
        if told := systemd.ask(service.is_system, *words):
            raise Failed(f"{manager} {' '.join(words)}: {told}", f"the unit is {service.path}")
    notes = [f"it starts with the machine; now: {manager} start {service.name}"]
    if not service.is_system:
        notes.append("it ends when you log out, unless: loginctl enable-linger")
    return notes


def installed(folder: str, home: str) -> Iterator[tuple[str, str]]:
    """The units that start Holdfast in this folder: path and content."""
    wanted = f"WorkingDirectory={_plain(os.path.realpath(folder))}\n"
    for is_system in (False, True):
        place = units_folder(home, is_system=is_system)
        try:
            names = sorted(os.listdir(place))
        except OSError:
            continue
        for name in names:
            path = os.path.join(place, name)
            if not name.endswith(".service") or not os.path.isfile(path):
                continue
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            if MARK in text and wanted in text:
                yield path, text


def judge_installed(path: str, text: str) -> tuple[str, str, str]:
    """Level, finding and fix of an installed unit."""
    name = os.path.basename(path)
    manager = "systemctl" if path.startswith(SYSTEM_UNITS) else "systemctl --user"
    found = re.search(r'^ExecStart="?([^"\s]+)', text, re.MULTILINE)
    program = found[1].replace("%%", "%") if found else ""
    if not os.access(program, os.X_OK):
        fix = "holdfast install-service writes it anew"
        return "warn", f"{name} starts {program or 'nothing'}, which is not there", fix
    target = "multi-user" if path.startswith(SYSTEM_UNITS) else "default"
    link = os.path.join(os.path.dirname(path), f"{target}.target.wants", name)
    if not os.path.lexists(link):
        return "warn", f"{name} is not enabled", f"{manager} enable {name}"
    return "ok", f"{name} starts it with the machine", ""


def _plain_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")
    return plain.removesuffix(".service") or "holdfast"


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word as a unit has it."""
    word = _plain(word).replace("$", "$$")
    if word and re.fullmatch(r"[\w@%+=:,./-]+", word, re.ASCII):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
