"""`jobs` and `queue` in a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.jobs import BackoffSpec, QueueSpec, RateSpec
from holdfast.vocabulary.specs.settings import Settings


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "holdfast.yaml"
    path.write_text(text)
    return load(str(path), environ={"WHERE": "there"}).settings


def test_a_template_is_a_process_and_how_often_it_is_tried(tmp_path: Path) -> None:
    """Keys of a service and of a job stand side by side; a text is the command alone."""
    found = settings(
        tmp_path,
        "jobs:\n"
        "  render: {command: [./render.sh, '${WHERE}'], timeout: 10m, attempts: 5,\n"
        "           concurrency: 2, priority: -1, env: {A: b}, keep_failed: 7d,\n"
        "           backoff: {delay: 500ms},\n"
        "           rate: {max: 3, per: 1m}, remove_on_complete: false}\n"
        "  hello: echo hello\n",
    ).jobs
    render = found["render"]
    assert render.service.argv == ("./render.sh", "there")
    assert (render.service.timeout, render.service.env["A"]) == (600.0, "b")
    assert (render.attempts, render.concurrency, render.priority) == (5, 2, -1)
    assert (render.backoff, render.rate) == (BackoffSpec(delay=0.5), RateSpec(max=3, per=60.0))
    assert (render.keep_failed, render.remove_on_complete) == (7 * 86400.0, False)
    assert found["hello"].service.argv == ("echo", "hello")
    assert (found["hello"].attempts, found["hello"].remove_on_complete) == (3, True)


def test_a_queue_has_the_defaults_of_its_source(tmp_path: Path) -> None:
    """Its name and numbers hold unless others are written."""
    assert settings(tmp_path, "jobs: {}\n").queue == QueueSpec()
    assert QueueSpec().name == "process-queue"
    found = settings(tmp_path, "queue: {concurrency: 9, log_size: 1MB, lease: 5s}\n").queue
    assert (found.concurrency, found.log_size, found.lease) == (9, 1_000_000, 5.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jobs: {Render: x}", "cannot name a job"),
        ("jobs: {a: {attempts: 2}}", "no command"),
        ("jobs: {a: {command: x, retries: 2}}", 'did you mean "attempts"'),
        ("jobs: {a: {command: x, restart: always}}", "unknown key"),
        ("jobs: {a: {command: x, rate: {per: 1s}}}", "a rate says how many"),
        ("queue: {maxConcurrentProcesses: 2}", 'did you mean "concurrency"'),
        ("queue: {lease: 1s}", "too short"),
    ],
)
def test_mistakes_are_told_with_a_remedy(tmp_path: Path, text: str, problem: str) -> None:
    """Wrong keys and values are problems with their place."""
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    assert problem in str(caught.value) + caught.value.hint
