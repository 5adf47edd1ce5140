"""Sessions on disk: one file of mode 0600, with the hashes of their tokens.

A session's token reads like any token, `holdfast_ID_SECRET`; its id has 32 digits. The file is
apart from the history, as that of tokens is, so that losing the history ends no session.
"""

from __future__ import annotations

import hmac
import os

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.adapters.tokens import LONGEST_TOKEN, NOBODY, PREFIX, digest_of
from holdfast.system.private_files import read_plain, replace_file
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.sessions import Fate

ID_DIGITS = 32
_log = logger("sessions")


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """What must survive of a session when supervisor and keeper die."""

    id: str
    digest: str
    client: str
    opened_by: str
    opened_at: float
    fate: Fate
    grace: float
    token: str | None = None
    """The id of the token that opened it; the session ends when that token does."""
    run_id: str | None = None
    """The supervised run that opened it."""
    fate_now: Fate | None = None
    """It is being closed, with this fate for what it started."""
    first_call: str | None = None
    """The first tool that it called."""


_decode = reader(list[StoredSession])


class SessionStore:
    """The file of all sessions."""

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, "sessions.json")

    def load(self) -> list[StoredSession]:
        try:
            return _decode(read_plain(self._path))
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            # Fail closed: their tokens are refused, and the services that they started run on.
            _log.error("%s cannot be read, all sessions are over: %s", self._path, error)
            return []

    def save(self, sessions: list[StoredSession]) -> None:
        data = msgspec.json.format(msgspec.json.encode(sessions))
        try:
            # Not synced, because this runs on the loop: a power cut ends all sessions anyway.
            replace_file(self._path, data, is_synced=False)
        except OSError as error:
            raise Failed(f"sessions cannot be stored: {error}", "is the disk full?") from error


def new_secret(identity: str) -> tuple[str, str]:
    """Return the text of a new token for this id, and its hash to store."""
    import secrets

    secret = secrets.token_urlsafe(32)
    return f"{PREFIX}{identity}_{secret}", digest_of(secret)


def id_in(text: str) -> str | None:
    """Return the session id in the text of a token; None if it is no session's token."""
    head, _, _ = text[:LONGEST_TOKEN].removeprefix(PREFIX).partition("_")
    return head if text.startswith(PREFIX) and len(head) == ID_DIGITS else None


def is_right(text: str, known: StoredSession | None) -> bool:
    """Return whether the secret is the session's. An unknown session takes just as long."""
    _, _, secret = text[:LONGEST_TOKEN].removeprefix(PREFIX).partition("_")
    is_same = hmac.compare_digest(digest_of(secret), known.digest if known else NOBODY)
    return is_same and known is not None
