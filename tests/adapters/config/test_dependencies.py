"""Dependencies, groups, tags and instances, as they are written and as they are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.adapters.config import load, load_instances
from holdfast.adapters.config.interpolation import fill_index
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.settings import Configuration


def read(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Configuration:
    path = folder / "holdfast.yaml"
    path.write_text(text)
    return load(str(path), environ=environ or {})


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    return caught.value.message


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        ("ready", "ready"),
        ("service_started", "started"),
        ("{condition: service_completed_successfully}", "completed"),
        ("{condition: Ready}", "ready"),
        ("{condition: log, pattern: up$}", "log"),
        ("{pattern: up$}", "log"),
        ("{}", "started"),
    ],
)
def test_conditions_in_every_spelling(tmp_path: Path, written: str, condition: str) -> None:
    """A condition is a word, a mapping, or what a compose file says."""
    text = f"services: {{db: x, web: {{command: y, depends_on: {{db: {written}}}}}}}"
    (edge,) = read(tmp_path, text).services["web"].depends_on
    assert (edge.service, edge.condition) == ("db", condition)
    assert edge.pattern == ("up$" if condition == "log" else None)
    assert edge.restart is False


def test_healthy_needs_somebody_who_asks(tmp_path: Path) -> None:
    """Without a health check the condition could never be met, and that is said at once."""
    text = "services: {db: x, web: {command: y, depends_on: {db: service_healthy}}}"
    assert "db has no health check, so nobody can tell" in refused(tmp_path, text)
    text = (
        "services:\n  db: {command: x, health_check: {url: 'http://localhost:1'}}\n"
        "  web: {command: y, depends_on: {db: {condition: service_healthy, restart: true}}}\n"
    )
    (edge,) = read(tmp_path, text).services["web"].depends_on
    assert (edge.condition, edge.restart) == ("healthy", True)


@pytest.mark.parametrize(
    ("edge", "shown"),
    [
        ("{db: reddy}", 'depends_on.db: "reddy" is not known; did you mean "ready"?'),
        ("{db: log}", "depends_on.db: the condition log needs a pattern; write {condition: log"),
        ("{db: {pattern: '('}}", '"(" is no regular expression'),
        ("{db: {condition: ready, pattern: x}}", "a pattern is for the condition log, not for"),
        (
            "{db: {conditon: ready}}",
            'depends_on.db.conditon: unknown key; did you mean "condition"',
        ),
        ("{db: {restart: maybe}}", '"maybe" is neither true nor false'),
        ("{job: completed}", "job is started again whenever it ends"),
        ("[dbb]", 'there is no service "dbb"; did you mean "db"?'),
    ],
)
def test_wrong_dependencies(tmp_path: Path, edge: str, shown: str) -> None:
    """What is wrong with an edge is told where it stands, with what to write."""
    text = (
        "services:\n  db: x\n  job: {command: y, restart_policy: always}\n"
        f"  web: {{command: z, depends_on: {edge}}}\n"
    )
    assert shown in refused(tmp_path, text)


def test_the_whole_cycle_is_named(tmp_path: Path) -> None:
    """Services that wait for each other are listed in the order in which they wait."""
    text = (
        "services:\n  web: {command: x, depends_on: [api]}\n"
        "  api: {command: x, instances: 2, depends_on: {db: ready}}\n"
        "  db: {command: x, depends_on: ['api@2']}\n"
    )
    assert "services wait for each other: api → db → api" in refused(tmp_path, text)


def test_groups_and_tags(tmp_path: Path) -> None:
    """Groups are lists at the top, tags are words of a service."""
    text = (
        "groups: {backend: [db, api], edge: web}\n"
        "services: {db: x, api: {command: y, tags: [dev, slow]}, web: {command: z, tags: dev}}\n"
    )
    configuration = read(tmp_path, text)
    assert configuration.settings.groups == {"backend": ("db", "api"), "edge": ("web",)}
    assert configuration.services["api"].tags == ("dev", "slow")
    assert configuration.services["web"].tags == ("dev",)


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        ("{web: [db]}", 'groups.web: a service is called "web", too; give the group another name'),
        ("{back: [dbb]}", 'groups.back: there is no service "dbb"; did you mean "db"?'),
        ("{Back: [db]}", 'groups.Back: "Back" is not a name'),
        ("[db]", "this is a list, not a mapping of groups"),
    ],
)
def test_wrong_groups(tmp_path: Path, groups: str, shown: str) -> None:
    """A group has a name of its own, and members that exist."""
    assert shown in refused(tmp_path, f"groups: {groups}\nservices: {{db: x, web: y}}\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ index }}", "3"),
        ("80{{index}}", "803"),
        ("{{ index + 8000 }}", "8003"),
        ("{{ 8000 + index }}:{{ index - 1 }}", "8003:2"),
        ("{{ other }} {{", "{{ other }} {{"),
    ],
)
def test_index(text: str, shown: str) -> None:
    """The index of an instance, alone or in a sum; other braces are left alone."""
    assert fill_index(text, 3) == shown


INSTANCES = """
stop: {grace: 9s}
env: {SHARED: "${HERE}"}
services:
  db: x
  web:
    command: serve --port {{ index + 8000 }}
    args: ["--name", "web-{{ index }}"]
    env: {PORT: "80{{ index }}"}
    working_dir: data/{{ index }}
    health_check: {url: "http://localhost:80{{ index }}/"}
    instances: 3
    depends_on: {db: ready}
    tags: [dev]
  job: {command: [echo, "{{{{ index }}}}"], depends_on: [web]}
"""


def test_instances(tmp_path: Path) -> None:
    """Each instance is a service of its own, with its index wherever it is written."""
    configuration = read(tmp_path, INSTANCES, {"HERE": "1"})
    assert list(configuration.services) == ["db", "web@1", "web@2", "web@3", "job"]
    second = configuration.services["web@2"]
    assert second.argv == ("serve", "--port", "8002", "--name", "web-2")
    assert second.env == {"SHARED": "1", "PORT": "802"}
    assert second.working_dir == str(tmp_path / "data" / "2")
    assert (second.template, second.index, second.tags) == ("web", 2, ("dev",))
    assert "http://localhost:802/" in repr(second)
    job = configuration.services["job"]
    assert job.argv == ("echo", "{{ index }}"), "doubled braces are for another program"
    assert job.depends_on[0].service == "web"
    template = configuration.settings.templates["web"]
    assert template.instances == 3
    more = load_instances(template, "web", 5, {"HERE": "1"})
    assert list(more) == [f"web@{index}" for index in range(1, 6)]
    assert more["web@2"] == second
    assert more["web@5"].argv[2] == "8005"
    assert more["web@5"].stop.grace == 9.0


def test_no_instance_at_all_is_still_checked(tmp_path: Path) -> None:
    """`instances: 0` starts nothing, and what is wrong in the block is told all the same."""
    text = "services: {web: {command: x, instances: 0}, api: {command: y, depends_on: web}}"
    configuration = read(tmp_path, text)
    assert list(configuration.services) == ["api"]
    assert configuration.settings.templates["web"].instances == 0
    shown = refused(tmp_path, "services: {web: {comand: x, instances: 0}}")
    assert "services.web.comand: unknown key" in shown


def test_a_mistake_in_instances_is_told_once(tmp_path: Path) -> None:
    """However many instances there are, one line is wrong once."""
    shown = refused(tmp_path, "services: {web: {command: x, instances: 9, umask: 9}}")
    assert shown.startswith("1 problem")
    assert "instances: " in refused(tmp_path, "services: {web: {command: x, instances: many}}")
