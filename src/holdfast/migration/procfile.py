"""Procfile, as foreman, honcho and overmind read it."""

from __future__ import annotations

import os
import re

from holdfast.migration.findings import Findings, command_keys

NAMES = ("Procfile", "Procfile.dev")
_OPTIONS = frozenset({"port", "env", "timeout", "formation", "concurrency"})
_LINE = re.compile(r"^([A-Za-z0-9_.-]+)\s*:\s*(\S.*?)\s*$")


def recognises(name: str, text: str) -> bool:
    if os.path.basename(name).startswith("Procfile"):
        return True
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    # A YAML file of plain texts looks the same; its values do not look like programs.
    return bool(lines) and name.endswith(".procfile") and all(_LINE.match(line) for line in lines)


def read(path: str, text: str) -> Findings:
    found = Findings("Procfile", path)
    folder = os.path.dirname(path)
    base = 5000
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = _LINE.match(line)
        if parts is None:
            found.lose(number, f'"{line.strip()[:60]}"', "write it as NAME: COMMAND")
            continue
        keys = command_keys(parts[2])
        # foreman tells every process a port, a hundred apart.
        keys["port"] = base
        base += 100
        found.add(parts[1], keys, number)
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
