"""What the relay asks the supervisor itself: a session, and a decision of its user.

The supervisor gives it the rights of its user, whom it identifies by the socket. Apart from
`relay`, because a session is asked for while the relay is still being imported.
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


class SessionOpener:
    """Opens sessions. The first uses a connection on which a hello was sent in advance, so that the
    supervisor identifies us while the relay is imported."""

    def __init__(self, places: Places, launch: Callable[[], None] | None) -> None:
        """If nothing runs when a session is needed, `launch` starts Holdfast."""
        self._places = places
        self._launch = launch
        self._greeted: tuple[Connection, int] | None = None
        self._hello: dict[str, Any] | None = None
        try:
            connection = Connection(places.line_socket)
            self._greeted = connection, connection.send("hello", version=__version__)
        except HoldfastError:
            pass  # `open` will find out why

    def open(self, client: str, *, may_launch: bool, is_patient: bool) -> str:
        """Open a session; returns its token. The patient wait for a supervisor that is being
        relaunched."""
        greeted, hello = self._greeted, self._said()
        self._greeted = None
        if greeted is not None:
            try:
                if hello is not None and hello.get("version") == __version__:
                    return _open_session(greeted[0], client)
            except (ConnectionLost, TimeoutError):
                pass  # the connection is too old
            finally:
                greeted[0].close()
        launch = self._launch if may_launch else None
        found = _connect(self._places, launch, None if is_patient else FIRST_ANSWER_SECONDS)
        return _open_session(found, client)

    def offer(self) -> dict[str, Any]:
        """Return which tools are offered here, as the supervisor says; where none runs, as the
        configuration does."""
        said = self._said() or {}
        return said.get("offer") or self._configured_offer()

    def _said(self) -> dict[str, Any] | None:
        """Return the answer to the hello that was sent in advance; None if there is none."""
        if self._hello is None and self._greeted is not None:
            connection, hello = self._greeted
            try:
                self._hello = connection.answer(hello, FIRST_ANSWER_SECONDS)
            except (HoldfastError, TimeoutError):
                connection.close()
                self._greeted = None
        return self._hello

    def _configured_offer(self) -> dict[str, Any]:
        from holdfast.cli.configuration import assistants_of

        return assistants_of(self._places)


def _open_session(connection: Connection, client: str) -> str:
    try:
        return str(connection.ask("open_session", client=client)["token"])
    finally:
        connection.close()


def _connect(
    places: Places, launch: Callable[[], None] | None, seconds: float | None = None
) -> Connection:
    from holdfast.client.discovery import CONNECT_SECONDS, connect

    try:
        return connect(places, timeout_seconds=seconds or CONNECT_SECONDS)
    except NoDaemon:
        if launch is None:
            raise
        launch()
        return connect(places)


def lasting_refusal(places: Places) -> HoldfastError | None:
    """The error that nothing runs here, or that assistants are not let in; None if neither is so.
    Waiting would not change either."""
    try:
        connection = _connect(places, None)
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
    """Approve or reject as the person at the client answered; any other answer decides nothing."""
    if not isinstance(answer, dict) or answer.get("action") not in ("accept", "decline"):
        return
    content = answer.get("content") or {}
    is_yes = answer["action"] == "accept" and content.get("confirm", True) is not False
    try:
        connection = _connect(places, None)
        try:
            command = "approve" if is_yes else "reject"
            connection.ask(command, approval=approval, reason=f"said at {client}")
        finally:
            connection.close()
    except HoldfastError:
        pass  # the request goes on waiting for another decision
