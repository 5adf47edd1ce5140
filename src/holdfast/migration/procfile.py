"""Procfile, as foreman, honcho and overmind read it."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from holdfast.migration.findings import Findings, command_keys, service_name

NAMES = ("Procfile", "Procfile.dev")
_OPTIONS = frozenset({"port", "env", "timeout", "formation", "concurrency"})
_LINE = re.compile(r"\s*([^:]*?)\s*:\s*(.*?)\s*")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class ProcfileLine(NamedTuple):
    number: int
    name: str
    command: str


def read_lines(text: str) -> tuple[list[ProcfileLine], dict[int, str]]:
    """Return the lines that declare a service, and the reasons for those that are left out by
    their numbers. Of two lines for one service the later one counts."""
    found: dict[str, ProcfileLine] = {}
    left_out: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.fullmatch(line)
        if parts is None:
            left_out[number] = "it is not NAME: COMMAND"
        elif not _NAME.fullmatch(parts[1]):
            left_out[number] = "a name has only letters, digits, - _ ."
        elif not parts[2]:
            left_out[number] = f"{parts[1]} has no command"
        else:
            name = service_name(parts[1])
            if name in found:
                left_out[found[name].number] = f"line {number} is {name}, too"
            found[name] = ProcfileLine(number, parts[1], parts[2])
    return list(found.values()), left_out


def port_of(place: int) -> int:
    """Return the port that foreman tells a process: they are a hundred apart."""
    return 5000 + 100 * place


def recognises(name: str, text: str) -> bool:
    if os.path.basename(name).startswith("Procfile"):
        return True
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    # A YAML file of plain texts looks the same; its values do not look like programs.
    return (
        bool(lines) and name.endswith(".procfile") and all(_LINE.fullmatch(line) for line in lines)
    )


def read(path: str, text: str) -> Findings:
    found = Findings("Procfile", path)
    folder = os.path.dirname(path)
    lines, left_out = read_lines(text)
    for place, line in enumerate(lines):
        keys = {**command_keys(line.command), "port": port_of(place)}
        found.add(line.name, keys, line.number)
    for number, why in left_out.items():
        found.lose(number, "left out", why)
    if found.services:
        found.lose(
            None,
            "when one process ends, foreman ends all",
            "here each is restarted after a failure; `essential: true` ends all with it",
        )
    if os.path.exists(os.path.join(folder, ".env")):
        for service in found.services:
            service.keys["env_file"] = ".env"
    _read_options(found, folder)
    return found


def _read_options(found: Findings, folder: str) -> None:
    """Take over what `.foreman` says of the Procfile."""
    path = os.path.join(folder, ".foreman")
    options: dict[str, str] = {}
    if os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                key, _, value = (part.strip() for part in line.partition(":"))
                if key in _OPTIONS:
                    options[key] = value
                elif key and not key.startswith("#"):
                    found.lose(number, f".foreman: {key}", "Holdfast has no such option")
    first = options.get("port", "")
    for place, service in enumerate(found.services):
        if first.isdigit():
            service.keys["port"] = int(first) + 100 * place
        if "env" in options:
            service.keys["env_file"] = [one.strip() for one in options["env"].split(",")]
    if options.get("timeout", "").isdigit():
        found.top["stop"] = {"grace": f"{options['timeout']}s"}
    _scale(found, options.get("formation") or options.get("concurrency") or "")


def _scale(found: Findings, formation: str) -> None:
    """Take over a formation such as `web=1,worker=2` or `all=1`."""
    wanted = {
        name.strip(): int(count)
        for name, _, count in (part.partition("=") for part in formation.split(","))
        if count.strip().isdigit()
    }
    for service in found.services:
        count = wanted.get(service.name, wanted.get("all", 1))
        if count == 0:
            service.keys["autostart"] = False
        elif count > 1:
            service.keys["instances"] = count
            service.keys["port"] = f"{{{{ index + {service.keys['port'] - 1} }}}}"
