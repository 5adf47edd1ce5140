"""What users ask of services is a part of their history."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.app.context import Context
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.states import Desired


def note_request(context: Context, names: Iterable[str], request: str) -> None:
    """Record who is to be started, stopped or restarted, unless it is so already."""
    for name in names:
        runner = context.roster.get(name)
        is_so = request == ("stop" if runner.desired is Desired.STOPPED else "start")
        if request == "restart" or not is_so or (runner.run is None) is (request == "start"):
            context.store.event(Kind.REQUESTED, name, runner.last_run_id, request=request)
