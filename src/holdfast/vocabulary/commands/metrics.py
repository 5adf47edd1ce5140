"""Commands about what services use."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.metrics import MetricsResult


class Metrics(Command, frozen=True, kw_only=True):
    """Tell what each service uses over its whole process tree, and all of them together.

    `extras` adds what is dear to ask: memory with shared pages counted fairly (`pss_bytes`) and
    the ports it listens on. `history` in seconds adds the points of that time; `resolution` is
    1, 10 or 60 seconds, by default the finest that reaches back far enough.
    """

    name = "metrics"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = MetricsResult
    route = ("GET", "/api/metrics")
    is_shared = True
    services: list[str] = []
    extras: bool = False
    history: float | None = None
    resolution: int | None = None
