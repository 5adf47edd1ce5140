"""The files of one configuration: `.env`, includes, the override and profiles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.adapters.config import load, load_instances
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.settings import Configuration


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def read(folder: Path, profiles: str = "", environ: Mapping[str, str] = {}) -> Configuration:
    settings = {"profiles": profiles} if profiles else {}
    return load(str(folder / "holdfast.yaml"), environ=environ, settings=settings)


def refused(folder: Path, environ: Mapping[str, str] = {}) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, environ=environ)
    return caught.value.message


def test_dotenv_fills_variables(tmp_path: Path) -> None:
    """The caller's environment wins; services do not get the file; its secrets are known as
    such; a bad line is named."""
    write(
        tmp_path,
        holdfast_yaml="services: {a: 'run ${A} ${B}', b: {command: x, env: {T: '${DB_TOKEN}'}}}",
    )
    (tmp_path / ".env").write_text("A=file\nexport B='two words'\nDB_TOKEN=abcdefgh\n")
    found = read(tmp_path, environ={"A": "shell"})
    assert found.services["a"].argv == ("run", "shell", "two", "words")
    assert found.services["a"].env == {}
    assert found.settings.secrets == ("abcdefgh",)
    assert str(tmp_path / ".env") in found.sources
    (tmp_path / ".env").write_text("A=1\nnonsense\n")
    assert ".env:2: not a NAME=VALUE line" in refused(tmp_path)
    (tmp_path / ".env").unlink()
    assert "the variable A is not set; set it in the shell or in .env" in refused(tmp_path)


def test_environment_may_be_variables(tmp_path: Path) -> None:
    """As in compose files: a mapping or a list, for one service or for all; `env` wins."""
    write(
        tmp_path,
        holdfast_yaml=(
            "environment: {SHARED: 1}\n"
            "services:\n"
            "  a: {command: x, environment: {A: 1}, env: {A: 2, B: 3}}\n"
            "  b: {command: x, environment: [A=1, HERE]}\n"
            "  c: {command: x, environment: clean}\n"
        ),
    )
    found = read(tmp_path, environ={"HERE": "shell"}).services
    assert found["a"].env == {"SHARED": "1", "A": "2", "B": "3"}
    assert found["b"].env == {"SHARED": "1", "A": "1", "HERE": "shell"}
    assert [found[name].environment for name in "abc"] == ["inherit", "inherit", "clean"]


def test_includes_are_merged_and_keep_their_folders(tmp_path: Path) -> None:
    """The including file wins key by key; relative paths belong to the included file."""
    write(
        tmp_path,
        holdfast_yaml=(
            "include: [api/holdfast.yaml, -absent.yaml]\n"
            "services: {api: {env: {B: main}, stop: {grace: 9s}}, web: serve}\n"
        ),
        api__holdfast_yaml=(
            "restart: {delay: 3s}\n"
            "services:\n"
            "  api: {command: run, env: {A: api, B: api}, env_file: api.env, watch: [src]}\n"
            "  job: {command: work, working_dir: jobs}\n"
            "  short: go\n"
        ),
        api__api_env="C=file\n",
    )
    (tmp_path / "api" / "api_env").rename(tmp_path / "api" / "api.env")
    found = read(tmp_path)
    api = found.services["api"]
    assert api.env == {"A": "api", "B": "main", "C": "file"}
    assert (api.working_dir, api.stop.grace, api.restart.delay) == (str(tmp_path / "api"), 9.0, 3.0)
    assert api.watch is not None
    assert api.watch.paths[0].startswith(str(tmp_path / "api" / "src"))
    assert found.services["job"].working_dir == str(tmp_path / "api" / "jobs")
    assert found.services["short"].working_dir == str(tmp_path / "api")
    assert found.services["web"].working_dir == str(tmp_path)
    assert str(tmp_path / "api" / "holdfast.yaml") in found.sources


def test_mistakes_of_other_files_are_told_with_their_place(tmp_path: Path) -> None:
    """File and line of the included file; what is missing, doubled or circular is named."""
    write(
        tmp_path,
        holdfast_yaml="include: [a.yaml, b.yaml, nowhere.yaml]\nservices: {web: serve}\n",
        a_yaml="include: holdfast.yaml\nservices:\n  one: x\n  bad: {comand: y}\n",
        b_yaml="services: {one: z}\n",
    )
    said = refused(tmp_path)
    assert "a.yaml:4:9: services.bad.comand: unknown key" in said
    assert "it includes itself" in said
    assert 'b.yaml:1:12: services.one: the service "one" is also declared in a.yaml' in said
    assert 'nowhere.yaml: No such file or directory; create it, or write "-nowhere.yaml"' in said


def test_the_override_wins(tmp_path: Path) -> None:
    """Mappings are merged, everything else is replaced, and `~` takes a key away."""
    write(
        tmp_path,
        holdfast_yaml=(
            "services: {web: {command: serve, port: 80, env: [A=1, B=2], tags: [x, y]}, db: run}"
        ),
        holdfast__override_yaml="",
    )
    (tmp_path / "holdfast.override.yaml").write_text(
        "services: {web: {port: ~, env: {B: 3}, tags: [z]}, db: {stop: {grace: 1s}}, more: go}\n"
    )
    found = read(tmp_path).services
    assert (found["web"].ports, found["web"].env) == ({}, {"A": "1", "B": "3"})
    assert found["web"].tags == ("z",)
    assert (found["db"].argv, found["db"].stop.grace) == (("run",), 1.0)
    assert "more" in found
    (tmp_path / "other.yaml").write_text("services: {web: serve}\n")
    assert list(load(str(tmp_path / "other.yaml"), environ={}).services) == ["web"]


def test_profiles_choose_what_up_starts(tmp_path: Path) -> None:
    """By the command line, the environment or the file; an unknown profile is a mistake."""
    text = "services: {web: serve, tool: {command: x, profiles: [dev, ci], instances: 1}}\n"
    write(tmp_path, holdfast_yaml=text)
    assert not read(tmp_path).services["tool@1"].autostart
    wanted = read(tmp_path, profiles="ci")
    assert wanted.services["tool@1"].autostart
    assert read(tmp_path, environ={"HOLDFAST_PROFILES": "dev"}).services["tool@1"].autostart
    more = load_instances(wanted.settings.templates["tool"], "tool", 2, {})
    assert [spec.autostart for spec in more.values()] == [True, True]
    write(tmp_path, holdfast_yaml="profiles: [dev]\n" + text)
    assert read(tmp_path).services["tool@1"].autostart
    assert 'no service has the profile "dve"; did you mean "dev"?' in refused(
        tmp_path, {"HOLDFAST_PROFILES": "dve"}
    )


def test_braces_of_other_programs(tmp_path: Path) -> None:
    """Doubled braces become single ones; what is no single word is left alone."""
    command = "x '{{json .}}' {{.Names}} {{{{ name }}}}"
    text = f"services:\n  a: {json.dumps(command)}\n  b: [y, '{{{{{{{{n}}}}}}}}']\n"
    write(tmp_path, holdfast_yaml=text)
    found = read(tmp_path).services
    assert found["a"].argv == ("x", "{{json .}}", "{{.Names}}", "{{", "name", "}}")
    assert found["b"].argv == ("y", "{{n}}")


def test_ports_of_unknown_services_are_mistakes(tmp_path: Path) -> None:
    """The service, or its port, is named with what to write."""
    text = "services: {web: {command: x, env: {A: '{{ services.%s.port }}'}}, db: y}\n"
    write(tmp_path, holdfast_yaml=text % "dbs")
    assert 'there is no service "dbs"; did you mean "db"?' in refused(tmp_path)
    write(tmp_path, holdfast_yaml=text % "db")
    assert "db has no such port; write port: auto for db" in refused(tmp_path)
