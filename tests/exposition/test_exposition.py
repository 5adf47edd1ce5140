"""The same numbers in the formats of other programs, read by those programs' own readers."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.exposition import opentelemetry, prometheus
from holdfast.exposition.families import families

ANSWER: dict[str, Any] = {
    "services": {
        "web": {
            "status": "running", "pid": 7, "cpu_percent": 12.5, "memory_bytes": 45_200_000,
            "processes": 2, "threads": 5, "handles": 9, "started_at": 1.7e9, "restarts": 1,
            "cpu_seconds_total": 3.25, "read_bytes_total": 10, "written_bytes_total": 20,
            "runs": 4, "custom": {"queue \"length\"": 17.0},
        },
        "db": {
            "status": "failed", "pid": None, "cpu_percent": None, "memory_bytes": None,
            "cpu_seconds_total": 1.0, "read_bytes_total": 0, "written_bytes_total": 0, "runs": 1,
            "restarts": 0, "custom": {},
        },
    },
    "supervisor": {
        "uptime": 60.0, "cpu_seconds": 1.5, "memory_bytes": 1000, "keeper_cpu_seconds": None,
        "keeper_memory_bytes": None, "commands": {"status": 3}, "handler_seconds": 0.1,
        "events": 12, "spawns": 2, "spawn_seconds": 0.01, "restarts": 1, "failures": 0,
        "loop_lag_seconds": 0.001, "loop_lag_max_seconds": 0.002,
    },
    "queue": {
        "states": {"waiting": 3, "failed": 1}, "totals": {"completed": 9}, "running": 2,
        "concurrency": 4, "paused": False,
    },
}  # fmt: skip


def test_prometheus_reads_what_we_write() -> None:
    """Its own parser finds every number, its kind and its labels."""
    from prometheus_client.parser import text_string_to_metric_families

    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for metric in text_string_to_metric_families(prometheus.text(ANSWER))
        for sample in metric.samples
    }
    assert found["holdfast_service_cpu_percent", "web"] == 12.5
    assert found["holdfast_service_resident_memory_bytes", "web"] == 45_200_000
    assert found["holdfast_service_cpu_seconds_total", "web"] == 3.25
    assert found["holdfast_service_cpu_seconds_total", "db"] == 1.0
    assert found["holdfast_service_up", "db", "failed"] == 0
    assert found["holdfast_service_custom", 'queue "length"', "web"] == 17
    assert found["holdfast_commands_total", "status"] == 3
    assert found["holdfast_jobs", "waiting"] == 3
    assert found["holdfast_job_events_total", "completed"] == 9
    assert (found["holdfast_jobs_running",], found["holdfast_queue_paused",]) == (2, 0)
    assert ("holdfast_service_cpu_percent", "db") not in found, "unknown is not zero"


def test_opentelemetry_sees_the_same_numbers() -> None:
    """A reader of the SDK collects every family, with one question for all."""
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    asked: list[int] = []

    def ask() -> dict[str, Any]:
        asked.append(1)
        return ANSWER

    opentelemetry.observe(provider, ask)
    data: Any = reader.get_metrics_data()
    found = {
        (metric.name, *sorted(map(str, point.attributes.values()))): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
    wanted = {
        (family.name, *sorted(sample.labels.values())): sample.value
        for family in families(ANSWER)
        for sample in family.samples
    }
    assert found == wanted
    assert len(asked) == 1
    provider.shutdown()
