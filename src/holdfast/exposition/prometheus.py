"""The text format of Prometheus, written by its own library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.exposition.families import families

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text(answer: Mapping[str, Any]) -> str:
    """An answer of the `metrics` command as Prometheus reads it."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

    class Answer(Collector):
        def collect(self) -> Iterator[Metric]:
            for family in families(answer):
                kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
                metric = kind(family.name, family.meaning, labels=family.labels)
                for sample in family.samples:
                    values = [sample.labels[name] for name in family.labels]
                    metric.add_metric(values, sample.value)
                yield metric

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Answer())
    return generate_latest(registry).decode()
