"""Commands, workflows and recovery in the configuration."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.settings import Configuration
from holdfast.vocabulary.specs.workflows import CommandSpec, RecoverySpec, StepSpec


def loaded(folder: Path, text: str) -> Configuration:
    path = folder / "holdfast.yaml"
    path.write_text(textwrap.dedent(text))
    return load(str(path), environ={"PATH": "/bin", "MODE": "fast"})


def test_named_commands_and_the_policy_stand_beside_each_other(tmp_path: Path) -> None:
    """A command is a text, a list or a block; the policy's keys are no commands."""
    settings = loaded(
        tmp_path,
        """
        production: true
        default_service: web
        commands:
          allow_shell: true
          allowed_types: [Make, npm]
          allowed_programs: [make, [npm, run]]
          timeout: 5m
          clean: make clean MODE=${MODE}
          migrate:
            command: [./manage.py, migrate]
            working_dir: app
            env: {LEVEL: 1}
            timeout: 2m
            description: migrate the database
            allowed_in_production: true
          build: {command_type: Make, command: all, is_safe: false}
          tidy: {command: "rm -rf *.o | true", shell: true}
        services: {web: sleep 1}
        """,
    ).settings
    folder = str(tmp_path)
    assert settings.is_production
    assert settings.default_service == "web"
    policy = settings.command_policy
    assert (policy.allow_shell, policy.allowed_types, policy.timeout) == (
        True,
        ("make", "npm"),
        300,
    )
    assert policy.allowed_programs == (("make",), ("npm", "run"))
    assert settings.commands["clean"] == CommandSpec(
        argv=("make", "clean", "MODE=fast"), working_dir=folder
    )
    assert settings.commands["migrate"] == CommandSpec(
        argv=("./manage.py", "migrate"),
        working_dir=f"{folder}/app",
        env={"LEVEL": "1"},
        timeout=120,
        description="migrate the database",
        allowed_in_production=True,
    )
    assert settings.commands["build"].argv == ("make", "all")
    assert not settings.commands["build"].is_safe
    assert settings.commands["tidy"].argv == ("/bin/sh", "-c", "rm -rf *.o | true")


def test_workflows(tmp_path: Path) -> None:
    """Steps run a command, name one, or do what a verb does; a list alone is the steps."""
    workflows = loaded(
        tmp_path,
        """
        commands: {clean: make clean}
        workflows:
          quick: [make, restart: web]
          deploy:
            description: Build and go
            steps:
              - run: {command: make build, timeout: 1m}
              - command: clean
                description: tidy up
              - stop: [web, db]
              - start: db
              - wait: {service: web, for: "log:ready", timeout: 10s}
              - wait: web
            on_failure: continue
            timeout: 10m
            allowed_in_production: true
        services: {web: sleep 1, db: sleep 1}
        """,
    ).settings.workflows
    assert [step.action for step in workflows["quick"].steps] == ["run", "restart"]
    deploy = workflows["deploy"]
    assert (deploy.on_failure, deploy.timeout, deploy.allowed_in_production) == (
        "continue",
        600,
        True,
    )
    run, command, stop, start, wait, again = deploy.steps
    assert run.run is not None
    assert run.run.timeout == 60
    assert command == StepSpec(action="command", command="clean", description="tidy up")
    assert (stop.services, start.services) == (("web", "db"), ("db",))
    assert wait == StepSpec(action="wait", services=("web",), condition="log:ready", timeout=10)
    assert again.condition == "running"


def test_recovery(tmp_path: Path) -> None:
    """Actions by cause: a word, a signal, a command by name or in words."""
    recovery = (
        loaded(
            tmp_path,
            """
        commands: {clean: make clean}
        services:
          web:
            command: sleep 1
            recovery:
              unhealthy: {signal: hup}
              crash: {command: clean}
              start_failure: {command: ./tell.sh}
              suppressed: notify
              memory: stop
              timeout: {command: [tell, now]}
        """,
        )
        .services["web"]
        .recovery
    )
    assert recovery["unhealthy"] == RecoverySpec(action="signal", signal="SIGHUP")
    assert recovery["crash"] == RecoverySpec(action="command", command="clean")
    for cause, argv in (("start_failure", ("./tell.sh",)), ("timeout", ("tell", "now"))):
        run = recovery[cause].run
        assert run is not None
        assert run.argv == argv
    assert (recovery["suppressed"].action, recovery["memory"].action) == ("notify", "stop")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("commands: {alow_shell: true}", 'did you mean "allow_shell"?'),
        ("commands: {x: {comand: y}}", 'did you mean "command"?'),
        ("commands: {x: 'a | b'}", "only a shell understands |"),
        ("commands: {x: {command: [a], shell: true}}", "one text"),
        ("commands: {allowed_types: [mak]}", 'did you mean "make"?'),
        ("commands: [make]", "not a mapping of commands"),
        ("default_service: wob", 'did you mean "web"?'),
        ("workflows: {a: {steps: [{run: x, restart: web}]}}", "a step does one thing"),
        ("workflows: {a: [command: nope]}", 'no command "nope"'),
        ("workflows: {a: [restart: wob]}", 'did you mean "web"?'),
        ("workflows: {a: {}}", "has no steps"),
        ("workflows: {a: [wait: {for: running}]}", "for whom"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, told: str) -> None:
    """Typing errors, and names that lead nowhere, are told with what was probably meant."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text + "\nservices: {web: sleep 1}\n")
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("suppressed: restart", "write one of stop, notify"),
        ("crash: {signal: HUP}", "unknown key"),
        ("unhealty: stop", 'did you mean "unhealthy"?'),
        ("crash: {command: nope}", 'no command "nope"'),
        ("unhealthy: {signal: HUP, command: x}", "write restart, stop, notify, {signal: SIGHUP}"),
        ("unhealthy: explode", "write one of restart, stop, notify"),
    ],
)
def test_what_is_wrong_with_recovery_is_said(tmp_path: Path, text: str, told: str) -> None:
    """An action that cannot be for a cause is refused when the file is read."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"services: {{web: {{command: sleep 1, recovery: {{{text}}}}}}}")
    assert told in caught.value.message
