"""The keys about resources: what may be written, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.resources import HostLimits, MemoryLimit
from holdfast.vocabulary.specs.settings import Configuration


def loaded(tmp_path: Path, text: str) -> Configuration:
    path = tmp_path / "holdfast.yaml"
    path.write_text(text)
    return load(str(path), environ={"SIZE": "1GiB"})


def test_limits_as_people_write_them(tmp_path: Path) -> None:
    """Sizes, percentages, durations, a size with an action, and variables."""
    configuration = loaded(
        tmp_path,
        """
limits: {max_processes: 20, max_cpu: 80%, max_memory: 90.5, queue_when_busy: true}
monitoring_interval: 2s
services:
  a: {command: x, memory_limit: 512MB, cpu_limit: 150%, process_limit: 100, timeout: 10m}
  b: {command: x, memory_limit: {size: "${SIZE}", action: warn}}
  c: x
""",
    )
    a, b, c = configuration.services.values()
    assert a.memory_limit == MemoryLimit(size=512_000_000, action="kill")
    assert (a.cpu_limit, a.process_limit, a.timeout) == (150.0, 100, 600.0)
    assert b.memory_limit == MemoryLimit(size=1024**3, action="warn")
    assert (c.memory_limit, c.cpu_limit, c.process_limit, c.timeout) == (None,) * 4
    settings = configuration.settings
    assert settings.limits == HostLimits(
        max_processes=20, max_cpu=80.0, max_memory=90.5, queue_when_busy=True
    )
    assert settings.monitoring_interval == 2.0


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("services: {a: {command: x, memory_limit: lots}}", "not a size"),
        ("services: {a: {command: x, memory_limit: 12}}", "too small"),
        ("services: {a: {command: x, memory_limit: {action: warn}}}", "it has no size"),
        ("services: {a: {command: x, memory_limit: {size: 5MB, action: beg}}}", "not known"),
        ("services: {a: {command: x, cpu_limit: much}}", "write 150%"),
        ("services: {a: {command: x, cpu_limit: 0}}", "out of range"),
        ("services: {a: {command: x, process_limit: 0}}", "too small"),
        ("services: {a: {command: x, timeout: 0s}}", "too short"),
        ("limits: {max_cpu: 101%}\nservices: {a: x}", "at most 100%"),
        ("limits: {max_cpus: 80%}\nservices: {a: x}", 'did you mean "max_cpu"?'),
        ("monitoring_interval: 100ms\nservices: {a: x}", "at least 1s"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, written: str, wanted: str) -> None:
    """Each problem names what to write instead."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, written)
    assert wanted in caught.value.message
