"""The same numbers as instruments of OpenTelemetry; whoever exports brings the reader.

Needs the extra `holdfast[otel]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.exposition.families import Family, families

Ask = Callable[[], Mapping[str, Any]]


def observe(provider: Any, ask: Ask) -> None:
    """Make the provider's meter observe what `ask` answers: the result of `metrics`.

    Asked once a collection, however many instruments there are.
    """
    from opentelemetry.metrics import CallbackOptions, Observation

    meter = provider.get_meter("holdfast")
    latest: dict[str, Family] = {}

    def look(name: str, *, is_first: bool) -> Iterable[Observation]:
        if is_first:
            latest.clear()
            latest.update({family.name: family for family in families(ask())})
        family = latest.get(name)
        return [
            Observation(sample.value, dict(sample.labels))
            for sample in (family.samples if family is not None else ())
        ]

    for place, family in enumerate(families(_everything())):

        def callback(
            options: CallbackOptions, name: str = family.name, is_first: bool = place == 0
        ) -> Iterable[Observation]:
            return look(name, is_first=is_first)

        create = (
            meter.create_observable_counter
            if family.kind == "counter"
            else meter.create_observable_gauge
        )
        create(
            family.name, [callback], unit=_UNITS.get(family.unit, "1"), description=family.meaning
        )


_UNITS = {"seconds": "s", "bytes": "By"}


class _Every(dict[str, Any]):
    """Has every number: an answer from which every family is made."""

    def __missing__(self, key: str) -> Any:
        return 0

    def get(self, key: str, default: Any = None) -> Any:
        return {"custom": {"x": 0}}.get(key, 0)


def _everything() -> dict[str, Any]:
    service = _Every(status="running")
    return {"services": {"x": service}, "supervisor": _Every(commands={"x": 0})}
