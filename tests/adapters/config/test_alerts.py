"""`alerts:` in a configuration."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from holdfast.adapters.config import load
from holdfast.adapters.config.schema import schema
from holdfast.vocabulary.alerts import TargetSpec
from holdfast.vocabulary.errors import ConfigError

SECRET = "hunter2hunter2"


def targets(tmp_path: Path, text: str) -> tuple[TargetSpec, ...]:
    path = tmp_path / "holdfast.yaml"
    path.write_text("services: {web: sleep 1}\n" + text, encoding="utf-8")
    found = load(str(path), environ={"HOOK": f"https://u:{SECRET}@chat.example.com/{SECRET}"})
    jsonschema.validate(yaml.safe_load(path.read_text()), schema())
    return found.settings.alerts


def test_the_three_ways(tmp_path: Path) -> None:
    """A webhook, a command, the desktop; names are made from them and hold no secret."""
    found = targets(
        tmp_path,
        "alerts:\n"
        "- {webhook: '${HOOK}', headers: {X-Token: abc}, format: slack, severity: critical}\n"
        "- {webhook: '${HOOK}/2', causes: [crash, unhealthy], cooldown: 5m}\n"
        "- {command: ./tell.sh now, services: [web], tags: [prod], cleared: no}\n"
        "- {desktop: true, repeat: 1h, timeout: 3s}\n",
    )
    names = ["chat.example.com", "chat.example.com 2", "tell.sh", "desktop"]
    assert [it.name for it in found] == names
    assert (found[0].format, found[0].severity, found[0].headers) == (
        "text", "critical", {"X-Token": "abc"},
    )  # fmt: skip
    assert (found[1].causes, found[1].cooldown) == (("crash", "unhealthy"), 300.0)
    assert (found[2].command, found[2].cleared) == (("./tell.sh", "now"), False)
    assert (found[3].repeat, found[3].timeout) == (3600.0, 3.0)


def test_one_alone_is_a_list_of_one(tmp_path: Path) -> None:
    """A single target need not be a list."""
    assert targets(tmp_path, "alerts: {command: [./a b, c]}\n")[0].command == ("./a b", "c")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alerts: [{severity: info}]", "one of webhook, command and desktop"),
        ("alerts: [{command: a, desktop: true}]", "one of webhook, command and desktop"),
        (f"alerts: [{{webhook: 'ftp://{SECRET}'}}]", "this is not a URL"),
        ("alerts: [{command: a, headers: {A: b}}]", "only a webhook has them"),
        ("alerts: [{command: a, causes: [crsh]}]", 'did you mean "crash"?'),
        ("alerts: [{command: a, severity: bad}]", "critical"),
        ("alerts: [{name: n, command: a}, {name: n, command: b}]", 'another target is called "n"'),
        ("alerts: [{url: 'http://x'}]", 'did you mean "webhook"?'),
        ("alerts: [{command: 'a | b'}]", "only a shell understands"),
        ("alerts: yes", "a mapping"),
        (f'alerts: [{{webhook: http://x, headers: {{A: "{SECRET}\\nB"}}}}]', "one line"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, words: str) -> None:
    """Each is named with what to write, and no address or header is repeated."""
    path = tmp_path / "holdfast.yaml"
    path.write_text("services: {web: sleep 1}\n" + text + "\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(path), environ={})
    assert words in caught.value.message
    assert SECRET not in str(caught.value.as_fields())
