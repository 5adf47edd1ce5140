"""What users ask of services is a part of their history, and makes it theirs or a session's."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.app.context import Context
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.states import Desired


def note_request(context: Context, names: list[str], request: str, actor: Actor) -> None:
    """Record who is to be started or restarted, unless it is so already, and for whom."""
    note_stop(context, names, request)
    if request == "restart":
        context.sessions.ownership.claim(names, context.sessions.owner_for(actor))
    else:
        claim(context, names, actor)


def claim(context: Context, names: list[str], actor: Actor) -> None:
    """What these and those they need are started for: the asking session, or the user."""
    order = context.roster.start_order(names)
    context.sessions.ownership.claim(order, context.sessions.owner_for(actor))


def note_stop(context: Context, names: Iterable[str], request: str = "stop") -> None:
    for name in names:
        runner = context.roster.get(name)
        is_so = request == ("stop" if runner.desired is Desired.STOPPED else "start")
        if request == "restart" or not is_so or (runner.run is None) is (request == "start"):
            context.store.event(Kind.REQUESTED, name, runner.last_run_id, request=request)
