"""The text format of Prometheus, written by its own library, which this module imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.exposition.families import families


class _AnswerCollector(Collector):
    """Gives the numbers of an answer of the command `metrics` to the library."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer

    def collect(self) -> Iterator[Metric]:
        for family in families(self._answer):
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.meaning, labels=family.labels)
            for sample in family.samples:
                values = [sample.labels[name] for name in family.labels]
                metric.add_metric(values, sample.value)
            yield metric


def text(answer: Mapping[str, Any]) -> str:
    """The numbers of an answer of the command `metrics`, as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_AnswerCollector(answer))
    return generate_latest(registry).decode()
