"""The numbers as instruments of OpenTelemetry. The exporting program brings its own reader.

Needs the extra `holdfast-supervisor[otel]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.exposition.families import Family, families

Ask = Callable[[], Mapping[str, Any]]


def observe(provider: Any, ask: Ask) -> None:
    """Make the provider's meter observe the answers of `metrics`, which `ask` returns.

    `ask` is called once for each collection, however many instruments there are.
    """
    from opentelemetry.metrics import CallbackOptions, Observation

    meter = provider.get_meter("holdfast")
    latest: dict[str, Family] = {}

    def samples_of(name: str, *, is_first: bool) -> Iterable[Observation]:
        if is_first:
            latest.clear()
            latest.update({family.name: family for family in families(ask())})
        family = latest.get(name)
        return [
            Observation(sample.value, dict(sample.labels))
            for sample in (family.samples if family is not None else ())
        ]

    for place, family in enumerate(families(_full_answer())):

        def callback(
            options: CallbackOptions, name: str = family.name, is_first: bool = place == 0
        ) -> Iterable[Observation]:
            return samples_of(name, is_first=is_first)

        create = (
            meter.create_observable_counter
            if family.kind == "counter"
            else meter.create_observable_gauge
        )
        create(
            family.name, [callback], unit=_UNITS.get(family.unit, "1"), description=family.meaning
        )


_UNITS = {"seconds": "s", "bytes": "By"}


class _EveryNumber(dict[str, Any]):
    """An answer that has every number, so that every family is made from it."""

    def __missing__(self, key: str) -> Any:
        return 0

    def get(self, key: str, default: Any = None) -> Any:
        return {"custom": {"x": 0}}.get(key, 0)


def _full_answer() -> dict[str, Any]:
    service = _EveryNumber(status="running")
    return {
        "services": {"x": service},
        "supervisor": _EveryNumber(commands={"x": 0}),
        "queue": _EveryNumber(states={"x": 0}, totals={"x": 0}),
    }
