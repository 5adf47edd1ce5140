"""`holdfast init` recognises what a folder runs, and writes a file that loads."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.adapters.config import load
from holdfast.cli.init import ASSISTANTS, write_config
from holdfast.cli.main import main
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.specs.services import ServiceSpec
from tests.cli.person import AtTerminal
from tests.harness import PYTHON

RAILS = {"bin/rails": "#!ruby", "Gemfile": "gem 'rails'", "package.json": '{"scripts":{"dev":"x"}}'}


def made(folder: Path, files: dict[str, str]) -> dict[str, ServiceSpec]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    written = write_config(str(folder), force=False)
    services = load(written.path, environ={}).services
    if written.services:
        assert tuple(services) == written.services
        assert written.sources
    return services


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"Procfile": "# x\nweb: npm start\nworker: python -u w.py 'a b'\n", "go.mod": "x"},
            {"web": "npm start", "worker": "python -u w.py a b"},
        ),
        ({"Procfile.dev": "Web_1: a\n", "Procfile": "web: b\n"}, {"web_1": "a"}),
        (
            {"Procfile": "web: puma -p ${PORT:-3000} && echo $$\n"},
            {"web": "/bin/sh -c puma -p ${PORT:-3000} && echo $$"},
        ),
        ({"Procfile": "web: PORT=1 x\n"}, {"web": "/bin/sh -c PORT=1 x"}),
        ({"Procfile": "web: null\nx: ~/y\n"}, {"web": "null", "x": "/bin/sh -c ~/y"}),
        ({"Procfile": "\ufeffweb: a \x7f\ufffe💥\n"}, {"web": "a \x7f\ufffe💥"}),
        ({"package.json": "[" * 100_000}, None),
        ({"package.json": '\ufeff{"scripts": {"dev": "vite"}}'}, {"web": "npm run dev"}),
        ({"Procfile": "web: it's\n"}, {"web": "/bin/sh -c it's"}),
        ({"Procfile": 'web: run "a: b" # c\n'}, {"web": "run a: b # c"}),
        ({"package.json": '{"scripts": {"dev": "vite", "start": "x"}}'}, {"web": "npm run dev"}),
        (
            {"package.json": '{"scripts": {"start": "x"}}', "yarn.lock": ""},
            {"web": "yarn run start"},
        ),
        (
            {"package.json": '{"scripts": {"dev": "x"}}', "pnpm-lock.yaml": ""},
            {"web": "pnpm run dev"},
        ),
        (
            {"package.json": '{"packageManager": "bun@1.1", "scripts": {"dev": "x"}}'},
            {"web": "bun run dev"},
        ),
        (
            {"manage.py": "os.environ['DJANGO_SETTINGS_MODULE']", ".venv/bin/python": ""},
            {"web": ".venv/bin/python manage.py runserver"},
        ),
        (
            {"app/main.py": "from fastapi import FastAPI\napi = FastAPI()\n"},
            {"web": "python3 -m uvicorn app.main:api --reload"},
        ),
        (
            {"src/main.py": "app: FastAPI = FastAPI(title='x')\n"},
            {"web": "python3 -m uvicorn --app-dir src main:app --reload"},
        ),
        (
            {"app.py": "app = Flask(__name__)\n"},
            {"web": "python3 -m flask --app app.py run --debug"},
        ),
        ({"main.py": "if __name__ == '__main__': pass"}, {"app": "python3 -u main.py"}),
        ({"pyproject.toml": '[project.scripts]\nshop = "shop:main"\n'}, {"app": "shop"}),
        ({"Cargo.toml": "x", "src/main.rs": "x"}, {"app": "cargo run"}),
        ({"go.mod": "x", "main.go": "x"}, {"app": "go run ."}),
        (
            {"go.mod": "x", "cmd/api/main.go": "x", "cmd/job/main.go": "x"},
            {"api": "go run ./cmd/api", "job": "go run ./cmd/job"},
        ),
        ({"Makefile": "all:\n\ttrue\nrun: all\n\t./x\n"}, {"app": "make run"}),
        ({"Makefile": "run := 5\n"}, None),
        ({"mix.exs": "{:phoenix, 1}"}, {"web": "mix phx.server"}),
        (
            {"artisan": "<?php"},
            {"web": "php artisan serve", "queue": "php artisan queue:listen"},
        ),
        (RAILS, {"web": "bin/rails server", "assets": "npm run dev"}),
        ({"config.ru": "run x", "Gemfile": "x"}, {"web": "bundle exec rackup"}),
        ({"package.json": "not json"}, None),
        ({"package.json": "[]"}, None),
        ({}, None),
    ],
)
def test_recognised(tmp_path: Path, files: dict[str, str], expected: dict[str, str] | None) -> None:
    """Each kind of project gives its services; the file always loads."""
    services = made(tmp_path, files)
    shown = {name: " ".join(spec.argv) for name, spec in services.items()}
    if expected is None:
        assert list(shown) == ["example"]
    else:
        assert shown == expected


def test_servers_in_folders_below(tmp_path: Path) -> None:
    """A frontend and a backend in their own folders run there."""
    services = made(
        tmp_path,
        {
            "frontend/package.json": '{"scripts": {"dev": "x"}}',
            "backend/manage.py": "import django",
        },
    )
    assert {n: s.working_dir for n, s in services.items()} == {
        "frontend": str(tmp_path / "frontend"),
        "backend": str(tmp_path / "backend"),
    }


def test_every_commented_key_is_right(tmp_path: Path) -> None:
    """The suggestions in the comments load when they are uncommented."""
    (tmp_path / "Procfile").write_text("web: x\ndb: y\n")
    path = write_config(str(tmp_path)).path
    text = Path(path).read_text()
    lines = [line.replace("# ", "", 1) if ": " in line else line for line in text.splitlines()[3:]]
    Path(path).write_text("\n".join(line for line in lines if "Defaults" not in line))
    web = load(path, environ={}).services["web"]
    assert web.terminal
    assert web.depends_on[0].service == "db"
    assert web.env == {"PORT": "3000"}


def test_what_is_left_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of a Procfile that says no service is named with its reason; the others count."""
    lines = ["web: x", "", "# a note", "no colon", "db:", "a b: c", " job : y", "WEB: z", "-: q"]
    (tmp_path / "Procfile").write_text("\n".join(lines))
    assert main(["-C", str(tmp_path), "init"]) == 0
    told = capsys.readouterr()
    assert "from Procfile: web, job, app" in told.out
    assert told.err.splitlines() == [
        "holdfast: Procfile, line 1 is left out: line 8 is web, too",
        "holdfast: Procfile, line 4 is left out: it is not NAME: COMMAND",
        "holdfast: Procfile, line 5 is left out: db has no command",
        "holdfast: Procfile, line 6 is left out: a name has only letters, digits, - _ .",
    ]
    assert main(["-C", str(tmp_path), "init", "--force", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 4


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """An existing configuration of any name stays, unless replacing it is asked for."""
    (tmp_path / "holdfast.yaml").write_text("services: {}\n")
    with pytest.raises(Failed, match="exists already"):
        write_config(str(tmp_path))
    assert (tmp_path / "holdfast.yaml").read_text() == "services: {}\n"
    write_config(str(tmp_path), force=True)
    assert "example:" in (tmp_path / "holdfast.yaml").read_text()
    with pytest.raises(Failed, match="exists too"):
        write_config(str(tmp_path), force=True, name="holdfast.yml")


@pytest.mark.parametrize("name", ["holdfast.json", "config", "."])
def test_bad_name(tmp_path: Path, name: str) -> None:
    """The file has a name that says what is in it."""
    with pytest.raises(UsageError, match="is YAML"):
        write_config(str(tmp_path), name=name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_option", [True, False])
def test_a_file_that_is_named(
    tmp_path: Path,
    is_option: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is written where `up` would look for it, for its folder; no other is in its way."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "Procfile").write_text("web: x\n")
    (tmp_path / "shop" / "holdfast.yaml").write_text("services: {}\n")
    (tmp_path / "holdfast.yaml").write_text("services: {}\n")
    named = ["-c", "shop/my dev.yaml"] if is_option else []
    if not is_option:
        monkeypatch.setenv("HOLDFAST_CONFIG", "shop/my dev.yaml")
    assert main(["-C", str(tmp_path), *named, "init"]) == 0
    assert list(load(str(tmp_path / "shop" / "my dev.yaml"), environ={}).services) == ["web"]
    then = "holdfast -c 'shop/my dev.yaml' up" if is_option else "holdfast up"
    assert capsys.readouterr().out.splitlines()[-1] == f"look at it, then: {then}"
    assert main(["-C", str(tmp_path), *named, "init"]) == 1
    assert "my dev.yaml exists already" in capsys.readouterr().err
    assert main(["-C", str(tmp_path), *named, "init", "--force"]) == 0
    assert (tmp_path / "shop" / "holdfast.yaml").read_text() == "services: {}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"scripts": {\n"dev": "x",\n}}', "it is no JSON in line"),
        ("[" * 100_000, "it is no JSON"),
        ("1" * 10_000, "it"),
        ("", "it is empty or cannot be read"),
        ("[]", "it or its scripts are no object"),
        ('{"scripts": "dev"}', "it or its scripts are no object"),
    ],
)
@pytest.mark.parametrize("below", ["", "frontend/"])
def test_a_broken_package_is_told(
    tmp_path: Path, text: str, why: str, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, and what else is recognised counts."""
    for name, content in (
        (f"{below}package.json", text),
        (f"{below}Makefile", "run:"),
        ("api/go.mod", "x"),
        ("api/main.go", "x"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert main(["-C", str(tmp_path), "init"]) == 0
    told = capsys.readouterr()
    assert told.err.startswith(f"holdfast: {below}package.json is left out: {why}")
    assert told.err.count("\n") == 1
    assert ("from api/go.mod: api" if below else "from Makefile: app") in told.out


@pytest.mark.parametrize("name", [b"a\xff\xfe", b"a\x01\x7f", b"a\n- b: [", "\u2028".encode()])
def test_folders_of_any_name(tmp_path: Path, name: bytes) -> None:
    """Whatever the folder is called, the file that speaks of it can be read."""
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    assert list(made(folder, {})) == ["example"]


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    """A pipe where a file is looked for counts as nothing."""
    os.mkfifo(tmp_path / "Procfile")
    assert list(made(tmp_path, {})) == ["example"]


def test_scripts_of_a_python_project(tmp_path: Path) -> None:
    """The program of a project is taken from its own environment, where there is one."""
    project = '[project.scripts]  # ours\n# one\nshop = "shop:main"\n'
    (tmp_path / "global").mkdir()
    (tmp_path / "own").mkdir()
    found = made(tmp_path / "global", {"pyproject.toml": project})
    assert found["app"].argv == ("shop",)
    own = {"pyproject.toml": project, ".venv/bin/python": "", ".venv/bin/shop": ""}
    assert made(tmp_path / "own", own)["app"].argv == (".venv/bin/shop",)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """A folder that cannot be written to is an error with its reason, and leaves nothing."""
    with pytest.raises(Failed, match="No such file"):
        write_config(str(tmp_path / "nowhere"))
    assert os.listdir(tmp_path) == []


def test_a_configuration_of_another_supervisor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is taken over as `import` does it, and what is lost is told."""
    (tmp_path / "package.json").write_text('{"scripts": {"dev": "vite"}}')
    (tmp_path / "mprocs.yaml").write_text("procs: {page: vite}\nserver: 127.0.0.1:4050\n")
    (tmp_path / "circus.ini").write_text("[watcher:worker]\ncmd = ./work\nmax_age = 60\n")
    (tmp_path / "ecosystem.config.js").write_text("module.exports = require('./apps')\n")
    assert main(["-C", str(tmp_path), "init"]) == 0
    told = capsys.readouterr()
    assert "from circus.ini, mprocs.yaml: worker, page" in told.out
    assert "circus.ini:3: worker: max_age" in told.err
    assert "mprocs.yaml:2: server" in told.err
    assert "ecosystem.config.js is left out" in told.err
    services = load(str(tmp_path / "holdfast.yaml"), environ={}).services
    assert list(services) == ["worker", "page"]


def test_a_procfile_keeps_its_port_and_variables(tmp_path: Path) -> None:
    """As foreman: PORT is told, and .env is for the processes."""
    files = {"Procfile": "web: serve $PORT\nworker: work\n", ".env": "GREETING=hello\n"}
    services = made(tmp_path, files)
    assert services["web"].env["GREETING"] == "hello"
    assert services["worker"].env["GREETING"] == "hello"
    assert services["web"].ports == {"port": 5000}
    assert not services["worker"].ports


@pytest.mark.parametrize("answers", ["none", "files", "programs", "all"])
def test_what_assistants_may_do_is_chosen(tmp_path: Path, answers: str) -> None:
    """Only what was allowed is in the file; nothing that would always refuse is offered."""
    path = write_config(str(tmp_path), choose_rights=lambda: ASSISTANTS[answers]).path
    settings = load(path, environ={}).settings
    assert settings.mcp.run is (answers in ("programs", "all"))
    assert settings.mcp.changes_files is (answers in ("files", "all"))


def test_a_person_is_asked_about_assistants(tmp_path: Path) -> None:
    """At a terminal, after everything else is known to work."""
    command = [PYTHON, "-m", "holdfast", "init"]
    person = AtTerminal(command, tmp_path, {**os.environ, "HOME": str(tmp_path)})
    person.see(b"change files of this project? [y/N]")
    person.type(b"y\n")
    person.see(b"run programs here, as you could? [y/N]")
    person.type(b"\n")
    person.see(b"look at it, then")
    assert person.exit_code() == 0
    text = (tmp_path / "holdfast.yaml").read_text()
    assert "\nfiles: {roots" in text
    assert "\n# mcp: {run" in text
