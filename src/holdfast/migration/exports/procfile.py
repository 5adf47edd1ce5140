"""Procfile: a line for each service, and nothing else."""

from __future__ import annotations

import os
import re
import shlex

from holdfast.migration.exports.declared import DeclaredProject, DeclaredService, Exported

_INSTEAD = {"*": "a Procfile has only names and commands"}


def write(project: DeclaredProject, image: str | None) -> Exported:
    lines: list[str] = []
    for service in project.services:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", service.name)
        lines.append(f"{name}: {_command(project, service)}")
        if service.count > 1:
            service.lose("instances", f"foreman start -m {name}={service.count}")
        service.lose_rest(_INSTEAD)
    return Exported({"Procfile": "\n".join(lines) + "\n"})


def _command(project: DeclaredProject, service: DeclaredService) -> str:
    line = service.shell_line
    if line is None or "\n" in line:
        line = shlex.join(service.argv).replace("\n", " ")
    pairs: list[str] = []
    for name, text in service.env.items():
        if text is None:
            service.lose(f"env.{name}", "a secret: put it into .env")
        elif name != "PORT":
            pairs.append(f"{name}={shlex.quote(text)}")
    if service.spec.ports:
        service.lose("port", "foreman chooses PORT; `foreman start -p` says the first one")
    folder = os.path.relpath(service.spec.working_dir, project.folder or service.spec.working_dir)
    begin = "" if folder == "." else f"cd {shlex.quote(folder)} && "
    middle = f"export {' '.join(pairs)} && " if pairs else ""
    return f"{begin}{middle}{line}"
