"""A configuration becomes one of another supervisor, and what that cannot say is told."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.config.loading import load
from holdfast.cli.main import main
from holdfast.migration.exports.declared import DeclaredProject
from holdfast.migration.exports.formats import WRITERS
from holdfast.migration.exports.systemd import calendar_of
from holdfast.migration.formats import read_files
from holdfast.migration.systemd import _cron
from holdfast.migration.writing import yaml_of
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.services import ServiceSpec

EVERYTHING: dict[str, Any] = {
    "groups": {"all": ["web", "db"]},
    "services": {
        "web": {
            "command": ["/bin/sleep", "a b", "100%", "$HOME", 'say "hi"', "back\\slash", "it's;"],
            "working_dir": "/",
            "env": {"STAGE": "live", "GREETING": "a b % $x", "API_TOKEN": "do-not-tell-me-42"},
            "user": "0:0",
            "umask": "027",
            "restart": {"policy": "on_failure", "delay": "3s", "max_restarts": 4, "backoff": 3,
                        "max_delay": "90s", "jitter": 0, "reset_after": "2m"},
            "start_seconds": "2s",
            "start_retries": 7,
            "success_exit_codes": [0, 3],
            "stop": {"signal": "INT", "grace": "9s"},
            "rlimits": {"nofile": [100, 200], "core": "unlimited"},
            "memory_limit": {"size": "64MiB", "action": "restart"},
            "cpu_limit": "150%",
            "process_limit": 50,
            "timeout": "1h",
            "log": {"max_size": "1MiB", "total_size": "4MiB"},
            "essential": True,
            "overlap": True,
            "tags": ["front"],
            "watch": ["src"],
            "recovery": {"crash": "notify"},
            "readiness": {"http": "http://localhost:{{ port }}/up", "interval": "4s"},
            "liveness": {"exec": ["true"], "timeout": "2s"},
            "startup": {"log": "started"},
            "port": 8100,
            "ports": {"debug": "auto"},
            "depends_on": {"db": "ready", "seed": "completed"},
        },
        "db": {"command": ["/bin/sleep", "1"], "notify": {"watchdog": "30s"}, "instances": 2,
               "autostart": False},
        "seed": {"command": "echo $$HOME && exit 0", "shell": True, "restart_policy": "never"},
        "nightly": {"command": ["/bin/true"], "schedule": {"cron": "30 3 * * MON-FRI",
                    "catch_up": True}, "restart_policy": "never"},
        "often": {"command": ["/bin/true"], "schedule": {"every": "10m"}},
        "shell": {"command": ["/bin/sh"], "terminal": True, "enabled": False},
        "reader": {"command": ["/bin/cat"], "stdin": "pipe", "restart_policy": "always",
                   "umask": "077"},
    },
}  # fmt: skip
WITHOUT_A_TRACE: dict[str, set[str]] = {
    # No container knows them; a Deployment replaces pods in the way of `overlap` or not.
    "compose": {"groups"},
    "kubernetes": {"groups"},
    "nomad": {"groups"},
    "procfile": {"groups", "port", "ports", "debug", "readiness", "liveness", "startup"},
    "systemd": {"groups"},
    "supervisord": set(),
}


def declared(folder: Path, document: dict[str, Any]) -> DeclaredProject:
    path = folder / "holdfast.yaml"
    path.write_text(json.dumps(document, ensure_ascii=False))
    return DeclaredProject(load(str(path), environ={}), {})


def exported(folder: Path, document: dict[str, Any], kind: str) -> tuple[dict[str, str], set[str]]:
    project = declared(folder, document)
    files = WRITERS[kind](project, "shop:1").files
    return files, {f"{loss.what}: {loss.instead}" for loss in project.losses}


@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_is_dropped_in_silence(tmp_path: Path, kind: str) -> None:
    """Each key of a service is in the files or among the losses: without it, one of them
    differs."""
    before = exported(tmp_path, EVERYTHING, kind)
    for name, service in EVERYTHING["services"].items():
        for key in service:
            if key in ("command", "shell", *WITHOUT_A_TRACE[kind]):
                continue
            document = copy.deepcopy(EVERYTHING)
            del document["services"][name][key]
            try:
                after = exported(tmp_path, document, kind)
            except ConfigError:
                continue
            assert after != before, f"{name}: {key}"


@pytest.mark.parametrize("kind", WRITERS)
def test_secrets_are_not_written(tmp_path: Path, kind: str) -> None:
    """The list says where to put a secret; no file has it."""
    files, losses = exported(tmp_path, EVERYTHING, kind)
    assert "do-not-tell-me" not in str(files) + str(losses)
    assert any("env.API_TOKEN: a secret" in loss for loss in losses)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """`systemd-analyze verify` says nothing about any unit."""
    files, _ = exported(tmp_path, EVERYTHING, "systemd")
    assert {"web.service", "db@.service", "nightly.timer", "often.timer"} <= set(files)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in files)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert (done.returncode, told) == (0, []), done.stderr


def test_kubernetes_objects(tmp_path: Path) -> None:
    """Each kind of service becomes the object that runs so; a pod's labels are its selector's."""
    files, _ = exported(tmp_path, EVERYTHING, "kubernetes")
    objects = {
        (one["kind"], one["metadata"]["name"]): one["spec"]
        for one in yaml.safe_load_all(files["kubernetes.yaml"])
    }
    assert set(objects) == {
        ("Deployment", "web"), ("Service", "web"), ("Deployment", "db"), ("Job", "seed"),
        ("CronJob", "nightly"), ("CronJob", "often"), ("Deployment", "shell"),
        ("Deployment", "reader"),
    }  # fmt: skip
    web = objects["Deployment", "web"]
    assert web["selector"]["matchLabels"] == web["template"]["metadata"]["labels"]
    container = web["template"]["spec"]["containers"][0]
    assert container["readinessProbe"]["httpGet"]["port"] == 8100
    assert container["resources"]["limits"] == {"memory": "67108864", "cpu": "1500m"}
    assert objects["Deployment", "db"]["replicas"] == 0
    assert objects["CronJob", "often"]["schedule"] == "*/10 * * * *"


def test_the_schema_of_kubernetes_accepts_the_objects(tmp_path: Path) -> None:
    """With no key that the API does not know."""
    validator = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate, 100 MB of schemas, is not installed"
    )
    files, _ = exported(tmp_path, EVERYTHING, "kubernetes")
    for one in yaml.safe_load_all(files["kubernetes.yaml"]):
        validator.validate(one, validator.latest_version(), strict=True)


def test_nomad_attributes_are_words(tmp_path: Path) -> None:
    """HCL quotes the keys of a map only, never those of a block."""
    files, _ = exported(tmp_path, EVERYTHING, "nomad")
    lines = [line.strip() for line in files["job.nomad.hcl"].splitlines()]
    assert [line for line in lines if line.startswith('"')] == []
    odd = {"services": {"a": {"command": ["/bin/true"], "env": {"a.b": "1", "C": "2"}}}}
    files, _ = exported(tmp_path, odd, "nomad")
    assert "env = {" in files["job.nomad.hcl"]
    assert '"a.b" = "1"' in files["job.nomad.hcl"]


@pytest.mark.parametrize(
    ("cron", "calendar"),
    [
        ("30 3 * * *", "*-*-* 3:30:0"),
        ("*/15 * * * *", "*-*-* *:0/15:0"),
        ("0 9-17 * * MON-FRI", "Mon..Fri *-*-* 9..17:0:0"),
        ("5 4 1,15 * *", "*-*-1,15 4:5:0"),
        ("0 0 * * 0,6", "Sun,Sat *-*-* 0:0:0"),
        ("10 0 2 * * *", "*-*-* 2:0:10"),
        ("@daily", "daily"),
        ("0 0 1 * MON", None),
    ],
)
def test_calendars(cron: str, calendar: str | None) -> None:
    """Cron's fields become a calendar expression; «or» of two days has none."""
    assert calendar_of(cron) == calendar
    if calendar is not None and cron.startswith("@"):
        assert _cron(calendar) == cron


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="{}\ufeff"),
    min_size=1,
    max_size=8,
) | st.sampled_from(["a b", "100%", "$HOME", "${X}", '"', "'", "\\", ";", "a ; b", "#", "%i"])
SERVICES = st.fixed_dictionaries(
    {"command": st.lists(WORDS, max_size=3).map(lambda words: ["/bin/echo", *words])},
    optional={
        "env": st.dictionaries(
            st.sampled_from(["A", "B_2", "LANG"]),
            st.text("abc XYZ%$=,./-09'", max_size=10),
            max_size=2,
        ),
        "restart_policy": st.sampled_from(["always", "on_failure", "never"]),
        "stop": st.fixed_dictionaries(
            {"grace": st.integers(1, 600).map("{}s".format)},
            optional={"signal": st.sampled_from(["INT", "QUIT", "USR1"])},
        ),
        "user": st.sampled_from(["root", "0"]),
        "autostart": st.booleans(),
    },
)
SYSTEMD = st.fixed_dictionaries(
    {},
    optional={
        "umask": st.sampled_from(["022", "077"]),
        "success_exit_codes": st.sets(st.integers(1, 200), max_size=3).map(
            lambda codes: [0, *sorted(codes)]
        ),
        "memory_limit": st.integers(1 << 20, 1 << 40),
        "cpu_limit": st.integers(1, 400).map("{}%".format),
        "process_limit": st.integers(1, 5000),
        "timeout": st.integers(1, 9999).map("{}s".format),
        "rlimits": st.fixed_dictionaries({"nofile": st.just([64, 128])}),
        "working_dir": st.sampled_from(["/", "/tmp"]),
    },
)
FIELDS = {
    "systemd": (
        *("argv", "working_dir", "env", "restart_policy", "stop", "user", "umask"),
        *("success_exit_codes", "memory_limit", "cpu_limit", "process_limit", "timeout"),
        *("rlimits", "restart"),
    ),
    "supervisord": (
        *("argv", "working_dir", "env", "restart_policy", "stop", "user", "umask", "autostart"),
        *("start_seconds", "start_retries", "success_exit_codes"),
    ),
    "compose": ("argv", "env", "restart_policy", "stop", "user", "autostart"),
    "procfile": ("argv",),
}


def there_and_back(folder: Path, document: dict[str, Any], kind: str) -> dict[str, ServiceSpec]:
    there = folder / "there"
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir()
    files, _ = exported(folder, document, kind)
    for name, text in files.items():
        (there / name).write_text(text)
    paths = [str(there / name) for name in sorted(files)]
    found = read_files(paths)
    back = there / "holdfast.yaml"
    back.write_text(yaml_of(found, str(there)))
    environ = dict.fromkeys(("HOME", "X", "A", "B_2", "LANG"), "x")
    return load(str(back), environ=environ).services


@pytest.mark.parametrize("kind", FIELDS)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    """What both can say is the same after an export and an import."""
    folder = tmp_path_factory.mktemp("round")

    @settings(max_examples=15, deadline=None)
    @given(
        st.dictionaries(
            st.sampled_from(["web", "db", "worker-2"]),
            st.tuples(SERVICES, SYSTEMD if kind in ("systemd", "supervisord") else st.just({})),
            min_size=1,
            max_size=2,
        )
    )
    def check(services: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
        document = {"services": {name: {**a, **b} for name, (a, b) in services.items()}}
        # A doubled `$` is one for Holdfast.
        for service in document["services"].values():
            service["command"] = [word.replace("$", "$$") for word in service["command"]]
            if "env" in service:
                service["env"] = {
                    name: text.strip().replace("$", "$$") for name, text in service["env"].items()
                }
        path = folder / "holdfast.yaml"
        path.write_text(json.dumps(document, ensure_ascii=False))
        before = load(str(path), environ={}).services
        after = there_and_back(folder, document, kind)
        assert set(after) == set(before)
        for name, spec in before.items():
            for field in FIELDS[kind]:
                assert said(after[name], field) == said(spec, field), (name, field)

    check()


def said(spec: ServiceSpec, field: str) -> object:
    value = getattr(spec, field)
    if field == "stop":
        return (value.signal or "TERM").removeprefix("SIG"), value.grace
    if field == "restart":
        return value.delay, value.max_restarts, value.reset_after
    if field == "argv" and value[:2] == ("/bin/sh", "-c"):
        # A Procfile has lines, which may need a shell.
        done = subprocess.run(["/bin/sh", "-c", value[2]], capture_output=True, text=True)
        return done.stdout
    if field == "argv" and value[0] == "/bin/echo" and "\\" not in "".join(value):
        return " ".join(value[1:]) + "\n"
    return value


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints or writes the files, replaces none without --force, and tells losses with the line
    of the configuration."""
    (tmp_path / "holdfast.yaml").write_text(
        "services:\n  web:\n    command: sleep 5 --password topsecret99\n    watch: [src]\n"
    )
    call = ["-C", str(tmp_path), "export"]
    assert main([*call, "compose", "--image", "shop:1"]) == 0
    told = capsys.readouterr()
    assert yaml.safe_load(told.out)["services"]["web"]["image"] == "shop:1"
    assert "holdfast.yaml:4: web: watch: write `develop" in told.err
    assert "holdfast.yaml:3: web: command: it has a secret" in told.err
    assert "topsecret99" not in told.out + told.err
    assert main([*call, "systemd", "--check"]) == 1
    assert capsys.readouterr().out == ""
    assert main([*call, "systemd", "-o", str(tmp_path / "units")]) == 0
    assert os.listdir(tmp_path / "units") == ["web.service"]
    assert main([*call, "systemd", "-o", str(tmp_path / "units")]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert main([*call, "systemd", "-o", str(tmp_path / "units"), "--force"]) == 0
    capsys.readouterr()
    assert main([*call, "runit"]) == 2
    assert "use systemd, compose" in capsys.readouterr().err
    assert main([*call, "procfile", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["Procfile"].startswith("web: sleep 5")
