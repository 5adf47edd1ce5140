"""`holdfast init`: look at a folder and write a commented holdfast.yaml for what is in it.

Standard library only. Reads files and writes one; never runs anything of the project's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from typing import NamedTuple

from holdfast.cli import procfile
from holdfast.system.places import CONFIG_NAMES
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.names import is_service_name

BELOW = ("frontend", "client", "web", "backend", "server", "api")
LARGEST_READ = 256 * 1024
_SHELL_SIGNS = re.compile(r"[|&;<>()`*?$]|^\s*\w+=|(?:^|\s)~")


class Found(NamedTuple):
    """A service that a folder seems to have, and which file says so."""

    name: str
    command: str
    source: str
    is_shell: bool = False
    depends_on: tuple[str, ...] = ()


class Written(NamedTuple):
    """What `write_config` did: the file, its services, and the files they were recognised by."""

    path: str
    services: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    """What was left out."""

    def __str__(self) -> str:
        return self.path


def write_config(folder: str, *, force: bool = False, name: str | None = None) -> Written:
    """Write a configuration for the folder that it is in; `name` is its path from this one,
    holdfast.yaml by default.

    An existing configuration is only replaced with `force`.
    """
    path = os.path.abspath(os.path.join(folder, name or CONFIG_NAMES[0]))
    if not path.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{path}: what is written is YAML", "name a file that ends with .yaml or .yml"
        )
    folder, name = os.path.split(path)
    rivals = CONFIG_NAMES if name in CONFIG_NAMES else (name,)
    existing = [n for n in rivals if os.path.lexists(os.path.join(folder, n))]
    if existing and not (force and existing == [name]):
        there = os.path.join(folder, existing[0])
        if force:
            raise Failed(f"{there} exists too", f"remove it, or call the new one {existing[0]}")
        named = f"-c {shlex.quote(there)} " if name not in CONFIG_NAMES else ""
        raise Failed(f"{there} exists already", f"`holdfast init {named}--force` replaces it")
    notes: list[str] = []
    services = recognise(folder, notes)
    text = config_text(os.path.basename(folder), services)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    sources = tuple(dict.fromkeys(found.source for found in services))
    return Written(path, tuple(found.name for found in services), sources, tuple(notes))


def recognise(folder: str, notes: list[str]) -> list[Found]:
    """The services that the files of this folder speak of; a Procfile says it all."""
    declared = from_procfile(folder, notes)
    if declared:
        return declared
    found: dict[str, Found] = {}
    for look in RECOGNISERS:
        for service in look(folder):
            found.setdefault(service.name, service)
    notes += [
        f"{os.path.join(place, 'package.json')} is left out: {why}"
        for place in ("", *(BELOW if needs_more(folder) else ()))
        if (why := package_of(os.path.join(folder, place))[1])
    ]
    return list(found.values())


def from_procfile(folder: str, notes: list[str]) -> list[Found]:
    for file in ("Procfile.dev", "Procfile"):
        commands, left_out = procfile.parse(read(folder, file), service_name)
        notes += [
            f"{file}, line {number} is left out: {why}" for number, why in sorted(left_out.items())
        ]
        if commands:
            return [from_line(name, command, file) for name, command in commands.items()]
    return []


def from_line(name: str, command: str, file: str) -> Found:
    is_shell = _SHELL_SIGNS.search(command) is not None or not is_lexable(command)
    # The shell replaces its variables when the service starts, not we.
    return Found(name, re.sub(r"\$(?=[${])", "$$", command), file, is_shell)


def from_package_json(folder: str) -> list[Found]:
    package, _ = package_of(folder)
    scripts: object = package.get("scripts")
    for script in ("dev", "start", "serve"):
        if isinstance(scripts, dict) and script in scripts:
            tool = package_manager(folder, package.get("packageManager"))
            return [Found("web", f"{tool} run {script}", "package.json")]
    return []


def package_of(folder: str) -> tuple[dict[str, object], str | None]:
    """What package.json says, and what is wrong with it, if anything is."""
    if not os.path.isfile(os.path.join(folder, "package.json")):
        return {}, None
    text = read(folder, "package.json")
    if not text.strip():
        return {}, "it is empty or cannot be read"
    try:
        package = json.loads(text)
    except json.JSONDecodeError as error:
        return {}, f"it is no JSON in line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError):
        return {}, "it is no JSON that can be read"
    if not isinstance(package, dict) or not isinstance(package.get("scripts", {}), dict):
        return {}, "it or its scripts are no object"
    return package, None


def package_manager(folder: str, declared: object) -> str:
    if isinstance(declared, str) and (tool := declared.partition("@")[0]) in (
        *("npm", "pnpm", "yarn", "bun"),
    ):
        return tool
    for lock, tool in (
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("bun.lockb", "bun"),
    ):
        if has(folder, lock):
            return tool
    return "npm"


def from_python(folder: str) -> list[Found]:
    python = next((p for p in (".venv/bin/python", "venv/bin/python") if has(folder, p)), "python3")
    if "django" in read(folder, "manage.py").lower():
        return [Found("web", f"{python} manage.py runserver", "manage.py")]
    for file in ("main.py", "app.py", "app/main.py", "src/main.py", "wsgi.py", "asgi.py"):
        text = read(folder, file)
        module = file.removesuffix(".py").replace("/", ".")
        prefix = "--app-dir src " if module.startswith("src.") else ""
        module = module.removeprefix("src.")
        if app := re.search(
            r"^(\w+)\s*(?::[^=\n]*)?=\s*(?:FastAPI|Starlette|Litestar)\(", text, re.MULTILINE
        ):
            command = f"{python} -m uvicorn {prefix}{module}:{app[1]} --reload"
            return [Found("web", command, file)]
        if re.search(r"^\w+\s*(?::[^=\n]*)?=\s*Flask\(|^def create_app\(", text, re.MULTILINE):
            return [Found("web", f"{python} -m flask --app {file} run --debug", file)]
        if "__main__" in text and file in ("main.py", "app.py"):
            return [Found("app", f"{python} -u {file}", file)]
    project = read(folder, "pyproject.toml")
    script = re.search(
        r"^\[project\.scripts\][^\n]*\n(?:\s*#[^\n]*\n)*\s*[\"']?([\w.-]+)[\"']?\s*=",
        project,
        re.MULTILINE,
    )
    if script is None:
        return []
    program = os.path.join(os.path.dirname(python), script[1])
    return [Found("app", program if has(folder, program) else script[1], "pyproject.toml")]


def from_ruby(folder: str) -> list[Found]:
    if has(folder, "bin/rails"):
        return [Found("web", "bin/rails server", "bin/rails")]
    gems = read(folder, "Gemfile")
    if has(folder, "config.ru"):
        return [Found("web", "bundle exec rackup" if gems else "rackup", "config.ru")]
    if re.search(r"^\s*gem\s+[\"']jekyll[\"']", gems, re.MULTILINE):
        return [Found("web", "bundle exec jekyll serve", "Gemfile")]
    return []


def from_php(folder: str) -> list[Found]:
    if not has(folder, "artisan"):
        return []
    return [
        Found("web", "php artisan serve", "artisan"),
        Found("queue", "php artisan queue:listen", "artisan"),
    ]


def from_elixir(folder: str) -> list[Found]:
    mix = read(folder, "mix.exs")
    if not mix:
        return []
    command = "mix phx.server" if ":phoenix" in mix else "mix run --no-halt"
    return [Found("app" if "phx" not in command else "web", command, "mix.exs")]


def from_compiled(folder: str) -> list[Found]:
    if has(folder, "Cargo.toml") and (has(folder, "src/main.rs") or has(folder, "src/bin")):
        return [Found("app", "cargo run", "Cargo.toml")]
    if has(folder, "go.mod"):
        if has(folder, "main.go"):
            return [Found("app", "go run .", "go.mod")]
        programs = sorted(p for p in entries(folder, "cmd") if has(folder, f"cmd/{p}/main.go"))
        return [
            Found(service_name(p), f"go run ./cmd/{shlex.quote(p)}", "go.mod") for p in programs
        ]
    if has(folder, "deno.json") and '"dev"' in read(folder, "deno.json"):
        return [Found("web", "deno task dev", "deno.json")]
    if has(folder, "gradlew") and "bootRun" in read(folder, "build.gradle"):
        return [Found("web", "./gradlew bootRun", "build.gradle")]
    if "spring-boot" in read(folder, "pom.xml"):
        tool = "./mvnw" if has(folder, "mvnw") else "mvn"
        return [Found("web", f"{tool} spring-boot:run", "pom.xml")]
    return []


def from_makefile(folder: str) -> list[Found]:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        targets = re.findall(r"^(dev|run|serve|start)\s*:(?!=)", read(folder, name), re.MULTILINE)
        for target in ("dev", "run", "serve", "start"):
            if target in targets:
                return [Found("app", f"make {target}", name)]
    return []


def or_makefile(folder: str) -> list[Found]:
    """A Makefile counts only where nothing more exact is known."""
    exact = [service for look in EXACT for service in look(folder)]
    return [] if exact else from_makefile(folder)


EXACT: tuple[Callable[[str], list[Found]], ...] = (
    *(from_python, from_ruby, from_php, from_elixir, from_compiled),
)


def from_frontend(folder: str) -> list[Found]:
    """package.json's server, called assets where a web framework has its own server."""
    found = from_package_json(folder)
    if found and any(service.name == "web" for look in EXACT for service in look(folder)):
        return [found[0]._replace(name="assets")]
    return found


def needs_more(folder: str) -> bool:
    """Whether the folder itself has no server."""
    return not any(look(folder) for look in (*EXACT, from_frontend, from_makefile))


def from_below(folder: str) -> list[Found]:
    """Servers in the folders that people keep them in, when the folder itself has none."""
    found: list[Found] = []
    for below in BELOW if needs_more(folder) else ():
        inner = os.path.join(folder, below)
        for service in [*from_package_json(inner), *(s for look in EXACT for s in look(inner))][:1]:
            source = f"{below}/{service.source}"
            found.append(service._replace(name=below, source=source))
    return found


RECOGNISERS: tuple[Callable[[str], list[Found]], ...] = (
    *EXACT,
    from_frontend,
    or_makefile,
    from_below,
)


def config_text(project: str, services: list[Found]) -> str:
    """The whole file, comments and all."""
    sources = ", ".join(dict.fromkeys(found.source for found in services))
    origin = (
        f"Made from {sources}."
        if services
        else "Nothing was recognised here: put in your own command."
    )
    lines = [
        f"# Services of {one_line(project)}. {origin}",
        "# Check and start: holdfast up    See: holdfast status, holdfast logs -f",
        "",
        "# Defaults for every service:",
        "# restart: {delay: 5s, max_delay: 60s, max_restarts: 10}",
        "# stop: {signal: TERM, grace: 5s}",
        "",
        "services:",
    ]
    shown = services or [Found("example", "sh -c 'while :; do date; sleep 5; done'", "")]
    for number, found in enumerate(shown):
        lines += service_lines(found, folder_of(found), is_first=number == 0)
    return "\n".join(lines) + "\n"


def folder_of(found: Found) -> str | None:
    below = os.path.dirname(found.source)
    return below if below and below == found.name else None


def service_lines(found: Found, folder: str | None, *, is_first: bool) -> list[str]:
    lines = [] if is_first else [""]
    lines += [f"  {found.name}:", f"    command: {yaml_text(found.command)}"]
    if found.is_shell:
        lines.append("    shell: true")
    if folder:
        lines.append(f"    working_dir: {folder}")
    if is_first:
        lines += [
            "    # working_dir: ./somewhere       # relative to this file",
            "    # env: {PORT: 3000}              # values may use ${NAME} and ${NAME:-default}",
            "    # env_file: -.env                # lines NAME=VALUE; `-`: may be absent",
            "    # restart_policy: on_failure     # or always, never",
            "    # depends_on: [db]               # started before this one",
            "    # terminal: true                 # for programs that want a terminal",
        ]
        if folder:
            lines.remove(lines[-6])
    return lines


def yaml_text(text: str) -> str:
    """A text as a YAML scalar; quoted only where a plain one would mean something else."""
    is_plain = re.fullmatch(r"[A-Za-z0-9./_][A-Za-z0-9 ./_=@%+,$-]*", text) is not None
    if is_plain and not text.endswith(" ") and text.lower() != "null":
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def service_name(text: str) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:63]
    return name if is_service_name(name) else "app"


def is_lexable(command: str) -> bool:
    try:
        return bool(shlex.split(command))
    except ValueError:
        return False


def one_line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split()) or "this folder"


def has(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


def entries(folder: str, name: str) -> list[str]:
    try:
        return os.listdir(os.path.join(folder, name))
    except OSError:
        return []


def read(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):  # to open a pipe is to wait for its writer
        return ""
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            return file.read(LARGEST_READ)
    except OSError:
        return ""
