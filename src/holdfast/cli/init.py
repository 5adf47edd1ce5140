"""`holdfast init`: detect the services of a folder and write a commented holdfast.yaml.

Reads files and writes one; never runs anything of the project.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from typing import NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.system.places import CONFIG_NAMES
from holdfast.vocabulary.errors import Failed, HoldfastError, UsageError

BELOW = ("frontend", "client", "web", "backend", "server", "api")
LARGEST_READ = 256 * 1024


class AssistantRights(NamedTuple):
    """What assistants may do beside looking, starting and stopping."""

    files: bool = False
    programs: bool = False


ASSISTANTS = {
    "none": AssistantRights(),
    "files": AssistantRights(files=True),
    "programs": AssistantRights(programs=True),
    "all": AssistantRights(files=True, programs=True),
}


@Verb(
    "init",
    "Write a commented holdfast.yaml for this folder",
    options=(
        Option("--force", "replace the configuration that is there"),
        Option(
            "--assistants",
            "what AI assistants may do beside looking, starting and stopping; asked at a terminal",
            choices=tuple(ASSISTANTS),
        ),
    ),
    about=(
        "Recognises what is in the folder: Procfile, package.json scripts, manage.py …\n"
        "A configuration of another supervisor is taken over as `holdfast import` does it.\n"
        "With -c it writes that file, for the folder that the file is in."
    ),
    examples=(
        ("holdfast init", "write holdfast.yaml, then look at it and run `holdfast up`"),
        ("holdfast init -c dev.yaml", "write another file beside it"),
        ("holdfast init --assistants files", "assistants may change files of this project"),
    ),
)
def init(call: Call) -> int:
    option = call.options.get("config")
    named = option or call.environ.get("HOLDFAST_CONFIG")
    assistants = call.options.get("assistants")
    result = write_config(
        call.folder,
        force=bool(call.options.get("force")),
        name=named,
        choose_rights=lambda: ASSISTANTS[assistants] if assistants else _ask_rights(call),
    )
    if call.is_json:
        call.emit(
            {
                "config": result.path,
                "services": list(result.services),
                "sources": list(result.sources),
                "notes": list(result.notes),
            }
        )
        return 0
    for note in result.notes:
        call.note(note)
    call.say(f"wrote {result.path}")
    if result.sources:
        call.say(f"from {', '.join(result.sources)}: {', '.join(result.services)}")
    else:
        call.say("nothing was recognised here: put your own command in place of the example")
    call.say(f"look at it, then: holdfast {f'-c {shlex.quote(option)} ' if option else ''}up")
    return 0


def _ask_rights(call: Call) -> AssistantRights:
    """Ask at the terminal, if there is one; without an answer assistants may do nothing more."""
    if call.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return AssistantRights()
    questions = (
        "May AI assistants that you connect change files of this project? [y/N] ",
        "May they run programs here, as you could? [y/N] ",
    )
    return AssistantRights(*[_is_yes(question) for question in questions])


def _is_yes(question: str) -> bool:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class DetectedService(NamedTuple):
    """A service that a folder seems to have, and the file that says so."""

    name: str
    command: str
    source: str
    is_shell: bool = False
    depends_on: tuple[str, ...] = ()
    port: int | None = None
    env_file: str | None = None


class InitResult(NamedTuple):
    """The file that was written, its services, and the files they were detected by."""

    path: str
    services: tuple[str, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]
    """What was left out, and why."""

    def __str__(self) -> str:
        return self.path


def write_config(
    folder: str,
    *,
    force: bool = False,
    name: str | None = None,
    choose_rights: Callable[[], AssistantRights] = AssistantRights,
) -> InitResult:
    """Write a configuration for the folder that it is in; `name` is its path from this one,
    holdfast.yaml by default.

    An existing configuration is only replaced with `force`. What assistants may do is asked only
    when the file can be written.
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
    taken_over = take_over(folder, notes)
    if taken_over is None:
        services = detect_services(folder, notes)
        text = config_text(os.path.basename(folder), services)
        sources = tuple(dict.fromkeys(found.source for found in services))
        names = tuple(found.name for found in services)
    else:
        text, sources, names = taken_over
    text += rights_text(choose_rights())
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise Failed(f"{path} cannot be written: {error.strerror}") from None
    return InitResult(path, names, sources, tuple(notes))


def take_over(folder: str, notes: list[str]) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """The configuration, its sources and its services, where the folder has the configuration of
    another supervisor; as `holdfast import` makes it."""
    from holdfast.migration.formats import SUPERVISORS, candidates, read_file
    from holdfast.migration.writing import yaml_of

    found = []
    for path in candidates(folder, SUPERVISORS):
        try:
            found.append(read_file(path))
        except HoldfastError as error:
            notes.append(f"{os.path.basename(path)} is left out: {error.message}")
    found = [one for one in found if one.services]
    if not found:
        return None
    text = yaml_of(found, folder)
    for one in found:
        name = os.path.basename(one.path)
        notes += [
            f"{name}{'' if loss.line is None else f':{loss.line}'}: {loss.what}: {loss.instead}"
            for loss in one.losses
        ]
    sources = tuple(os.path.basename(one.path) for one in found)
    return text, sources, tuple(service.name for service in found[0].services)


def detect_services(folder: str, notes: list[str]) -> list[DetectedService]:
    """The services that the files of this folder suggest. Where there is a Procfile, only that
    counts."""
    declared = from_procfile(folder, notes)
    if declared:
        return declared
    found: dict[str, DetectedService] = {}
    for detect in DETECTORS:
        for service in detect(folder):
            found.setdefault(service.name, service)
    notes += [
        f"{os.path.join(place, 'package.json')} is left out: {why}"
        for place in ("", *(BELOW if has_no_server(folder) else ()))
        if (why := package_of(os.path.join(folder, place))[1])
    ]
    return list(found.values())


def from_procfile(folder: str, notes: list[str]) -> list[DetectedService]:
    from holdfast.migration.procfile import port_of, read_lines

    for file in ("Procfile.dev", "Procfile"):
        lines, left_out = read_lines(read(folder, file))
        notes += [
            f"{file}, line {number} is left out: {why}" for number, why in sorted(left_out.items())
        ]
        if lines:
            env_file = ".env" if os.path.exists(os.path.join(folder, ".env")) else None
            return [
                from_line(line.name, line.command, file)._replace(
                    port=port_of(place) if "PORT" in line.command or line.name == "web" else None,
                    env_file=env_file,
                )
                for place, line in enumerate(lines)
            ]
    return []


def from_line(name: str, command: str, file: str) -> DetectedService:
    from holdfast.migration.findings import command_keys, service_name

    keys = command_keys(command)
    return DetectedService(service_name(name), keys["command"], file, "shell" in keys)


def from_package_json(folder: str) -> list[DetectedService]:
    package, _ = package_of(folder)
    scripts: object = package.get("scripts")
    for script in ("dev", "start", "serve"):
        if isinstance(scripts, dict) and script in scripts:
            tool = package_manager(folder, package.get("packageManager"))
            return [DetectedService("web", f"{tool} run {script}", "package.json")]
    return []


def package_of(folder: str) -> tuple[dict[str, object], str | None]:
    """The content of package.json, and what is wrong with it, if anything is."""
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


def from_python(folder: str) -> list[DetectedService]:
    python = next((p for p in (".venv/bin/python", "venv/bin/python") if has(folder, p)), "python3")
    if "django" in read(folder, "manage.py").lower():
        return [DetectedService("web", f"{python} manage.py runserver", "manage.py")]
    for file in ("main.py", "app.py", "app/main.py", "src/main.py", "wsgi.py", "asgi.py"):
        text = read(folder, file)
        module = file.removesuffix(".py").replace("/", ".")
        prefix = "--app-dir src " if module.startswith("src.") else ""
        module = module.removeprefix("src.")
        if app := re.search(
            r"^(\w+)\s*(?::[^=\n]*)?=\s*(?:FastAPI|Starlette|Litestar)\(", text, re.MULTILINE
        ):
            command = f"{python} -m uvicorn {prefix}{module}:{app[1]} --reload"
            return [DetectedService("web", command, file)]
        if re.search(r"^\w+\s*(?::[^=\n]*)?=\s*Flask\(|^def create_app\(", text, re.MULTILINE):
            return [DetectedService("web", f"{python} -m flask --app {file} run --debug", file)]
        if "__main__" in text and file in ("main.py", "app.py"):
            return [DetectedService("app", f"{python} -u {file}", file)]
    project = read(folder, "pyproject.toml")
    script = re.search(
        r"^\[project\.scripts\][^\n]*\n(?:\s*#[^\n]*\n)*\s*[\"']?([\w.-]+)[\"']?\s*=",
        project,
        re.MULTILINE,
    )
    if script is None:
        return []
    program = os.path.join(os.path.dirname(python), script[1])
    return [
        DetectedService("app", program if has(folder, program) else script[1], "pyproject.toml")
    ]


def from_ruby(folder: str) -> list[DetectedService]:
    if has(folder, "bin/rails"):
        return [DetectedService("web", "bin/rails server", "bin/rails")]
    gems = read(folder, "Gemfile")
    if has(folder, "config.ru"):
        return [DetectedService("web", "bundle exec rackup" if gems else "rackup", "config.ru")]
    if re.search(r"^\s*gem\s+[\"']jekyll[\"']", gems, re.MULTILINE):
        return [DetectedService("web", "bundle exec jekyll serve", "Gemfile")]
    return []


def from_php(folder: str) -> list[DetectedService]:
    if not has(folder, "artisan"):
        return []
    return [
        DetectedService("web", "php artisan serve", "artisan"),
        DetectedService("queue", "php artisan queue:listen", "artisan"),
    ]


def from_elixir(folder: str) -> list[DetectedService]:
    mix = read(folder, "mix.exs")
    if not mix:
        return []
    command = "mix phx.server" if ":phoenix" in mix else "mix run --no-halt"
    return [DetectedService("app" if "phx" not in command else "web", command, "mix.exs")]


def from_compiled(folder: str) -> list[DetectedService]:
    from holdfast.migration.findings import service_name

    if has(folder, "Cargo.toml") and (has(folder, "src/main.rs") or has(folder, "src/bin")):
        return [DetectedService("app", "cargo run", "Cargo.toml")]
    if has(folder, "go.mod"):
        if has(folder, "main.go"):
            return [DetectedService("app", "go run .", "go.mod")]
        programs = sorted(p for p in entries(folder, "cmd") if has(folder, f"cmd/{p}/main.go"))
        return [
            DetectedService(service_name(p), f"go run ./cmd/{shlex.quote(p)}", "go.mod")
            for p in programs
        ]
    if has(folder, "deno.json") and '"dev"' in read(folder, "deno.json"):
        return [DetectedService("web", "deno task dev", "deno.json")]
    if has(folder, "gradlew") and "bootRun" in read(folder, "build.gradle"):
        return [DetectedService("web", "./gradlew bootRun", "build.gradle")]
    if "spring-boot" in read(folder, "pom.xml"):
        tool = "./mvnw" if has(folder, "mvnw") else "mvn"
        return [DetectedService("web", f"{tool} spring-boot:run", "pom.xml")]
    return []


def from_makefile(folder: str) -> list[DetectedService]:
    for name in ("Makefile", "makefile", "GNUmakefile"):
        targets = re.findall(r"^(dev|run|serve|start)\s*:(?!=)", read(folder, name), re.MULTILINE)
        for target in ("dev", "run", "serve", "start"):
            if target in targets:
                return [DetectedService("app", f"make {target}", name)]
    return []


def from_makefile_alone(folder: str) -> list[DetectedService]:
    """The target of a Makefile, if no other file says how to start a service."""
    exact = [service for detect in EXACT for service in detect(folder)]
    return [] if exact else from_makefile(folder)


EXACT: tuple[Callable[[str], list[DetectedService]], ...] = (
    *(from_python, from_ruby, from_php, from_elixir, from_compiled),
)


def from_frontend(folder: str) -> list[DetectedService]:
    """The server of package.json, named assets where a web framework has a server of its own."""
    found = from_package_json(folder)
    if found and any(service.name == "web" for detect in EXACT for service in detect(folder)):
        return [found[0]._replace(name="assets")]
    return found


def has_no_server(folder: str) -> bool:
    """Return whether the folder itself has no server."""
    return not any(detect(folder) for detect in (*EXACT, from_frontend, from_makefile))


def from_below(folder: str) -> list[DetectedService]:
    """Servers in the usual subfolders, if the folder itself has none."""
    found: list[DetectedService] = []
    for below in BELOW if has_no_server(folder) else ():
        inner = os.path.join(folder, below)
        for service in [
            *from_package_json(inner),
            *(service for detect in EXACT for service in detect(inner)),
        ][:1]:
            source = f"{below}/{service.source}"
            found.append(service._replace(name=below, source=source))
    return found


DETECTORS: tuple[Callable[[str], list[DetectedService]], ...] = (
    *EXACT,
    from_frontend,
    from_makefile_alone,
    from_below,
)


def config_text(project: str, services: list[DetectedService]) -> str:
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
    shown = services or [DetectedService("example", "sh -c 'while :; do date; sleep 5; done'", "")]
    for number, found in enumerate(shown):
        lines += service_lines(found, folder_of(found), is_first=number == 0)
    return "\n".join(lines) + "\n"


def rights_text(rights: AssistantRights) -> str:
    """The part of the file about assistants; as a comment where they may do nothing more."""
    files = "files: {roots: {project: {path: ., write: true}}}"
    programs = "mcp: {run: true, send: true}"
    return "\n".join(
        [
            "",
            "# What AI assistants may do, beside looking, starting and stopping:",
            f"{'' if rights.files else '# '}{files}  # change files of this project",
            f"{'' if rights.programs else '# '}{programs}  # run programs, type into services",
            "",
        ]
    )


def folder_of(found: DetectedService) -> str | None:
    below = os.path.dirname(found.source)
    return below if below and below == found.name else None


def service_lines(found: DetectedService, folder: str | None, *, is_first: bool) -> list[str]:
    lines = [] if is_first else [""]
    lines += [f"  {found.name}:", f"    command: {yaml_text(found.command)}"]
    if found.is_shell:
        lines.append("    shell: true")
    if folder:
        lines.append(f"    working_dir: {folder}")
    if found.port:
        lines.append("    # The service is told this as PORT; auto takes any free port.")
        lines.append(f"    port: {found.port}")
    if found.env_file:
        lines.append(f"    env_file: {found.env_file}")
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
    """The text as a YAML scalar, in quotes only where it would mean something else without."""
    is_plain = re.fullmatch(r"[A-Za-z0-9./_][A-Za-z0-9 ./_=@%+,$-]*", text) is not None
    if is_plain and not text.endswith(" ") and text.lower() != "null":
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


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
    if not os.path.isfile(path):  # opening a pipe would wait for its writer
        return ""
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            return file.read(LARGEST_READ)
    except OSError:
        return ""
