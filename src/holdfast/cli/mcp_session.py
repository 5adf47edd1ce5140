"""What a relay asks of the supervisor itself: a session, and what its user decided.

With the rights of who runs it, which the supervisor sees from the socket. Standard library only.
"""

from __future__ import annotations

from holdfast.client.reach import reach
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.vocabulary.places import Places


def open_session(places: Places, client: str, launch: Callable[[], None] | None) -> str:
    """The token of a new session; where nothing runs, `launch` may start it."""
    try:
        connection = reach(places)
    except NoDaemon:
        if launch is None:
            raise
        launch()
        connection = reach(places)
    try:
        return str(connection.ask("open_session", client=client)["token"])
    finally:
        connection.close()


def nobody_there(places: Places) -> HoldfastError | None:
    """That nothing runs here, or lets assistants in, if so: that does not change by itself."""
    try:
        connection = reach(places)
        try:
            why = connection.ask("hello").get("no_assistants")
        finally:
            connection.close()
    except NoDaemon as error:
        return error if type(error) is NoDaemon else None
    except (HoldfastError, OSError):
        return None
    hint = "change that in the configuration, then `holdfast reload`"
    return None if why is None else Refused(why, hint)


def decide(places: Places, client: str, approval: str, answer: Any) -> None:
    """Approve or reject, as the person at the client said; anything else decides nothing."""
    if not isinstance(answer, dict) or answer.get("action") not in ("accept", "decline"):
        return
    content = answer.get("content") or {}
    is_yes = answer["action"] == "accept" and content.get("confirm", True) is not False
    try:
        connection = reach(places)
        try:
            command = "approve" if is_yes else "reject"
            connection.ask(command, approval=approval, reason=f"said at {client}")
        finally:
            connection.close()
    except HoldfastError:
        pass  # it goes on waiting for somebody who may
