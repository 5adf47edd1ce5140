"""What a relay asks of the supervisor itself: a session, and what its user decided.

With the rights of who runs it, which the supervisor sees from the socket. Standard library only.
"""

from __future__ import annotations

from holdfast import __version__
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.system.places import Places

FIRST_ANSWER_SECONDS = 1.5


class Sessions:
    """Opens sessions, the first over a line on which the supervisor was greeted in advance: it
    finds out who we are while the rest of us is loaded."""

    def __init__(self, places: Places, launch: Callable[[], None] | None) -> None:
        """Where nothing runs when a session is wanted, `launch` may start it."""
        self._places = places
        self._launch = launch
        self._line: tuple[Connection, int] | None = None
        try:
            connection = Connection(places.line_socket)
            self._line = connection, connection.send("hello", version=__version__)
        except HoldfastError:
            pass  # who wants a session will find out why

    def open(self, client: str) -> str:
        """The token of a new one."""
        line, self._line = self._line, None
        if line is not None:
            connection, hello = line
            try:
                if connection.answer(hello, FIRST_ANSWER_SECONDS).get("version") == __version__:
                    return _opened(connection, client)
            except (ConnectionLost, TimeoutError):
                pass  # the greeting was long ago
            finally:
                connection.close()
        return _opened(_reached(self._places, self._launch), client)


def _opened(connection: Connection, client: str) -> str:
    try:
        return str(connection.ask("open_session", client=client)["token"])
    finally:
        connection.close()


def _reached(places: Places, launch: Callable[[], None] | None) -> Connection:
    from holdfast.client.discovery import connect

    try:
        return connect(places)
    except NoDaemon:
        if launch is None:
            raise
        launch()
        return connect(places)


def nobody_there(places: Places) -> HoldfastError | None:
    """That nothing runs here, or lets assistants in, if so: that does not change by itself."""
    try:
        connection = _reached(places, None)
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
        connection = _reached(places, None)
        try:
            command = "approve" if is_yes else "reject"
            connection.ask(command, approval=approval, reason=f"said at {client}")
        finally:
            connection.close()
    except HoldfastError:
        pass  # it goes on waiting for somebody who may
