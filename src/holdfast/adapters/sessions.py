"""Sessions on disk: one file of mode 0600, with hashes of their tokens.

A session's token reads as any token, `holdfast_ID_SECRET`; its id has 32 digits. Apart from the
history, as tokens are: losing that must not throw anybody out.
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
    """What must be known of a session after the death of everybody."""

    id: str
    digest: str
    client: str
    opened_by: str
    opened_at: float
    fate: Fate
    grace: float
    token: str | None = None
    """The id of the token it was opened with: when that goes, the session does."""
    run_id: str | None = None
    """The supervised run it was opened by."""
    fate_now: Fate | None = None
    """It is being closed, with this fate for what it started."""


_decode = reader(list[StoredSession])


class SessionStore:
    """The file of the sessions."""

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, "sessions.json")

    def load(self) -> list[StoredSession]:
        try:
            return _decode(read_plain(self._path))
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            # Fail closed: their tokens are refused, and what they started runs on.
            _log.error("%s cannot be read, all sessions are over: %s", self._path, error)
            return []

    def save(self, sessions: list[StoredSession]) -> None:
        data = msgspec.json.format(msgspec.json.encode(sessions))
        try:
            # Not synced, for this is done on the loop: with the power, sessions are over anyway.
            replace_file(self._path, data, is_synced=False)
        except OSError as error:
            raise Failed(f"sessions cannot be stored: {error}", "is the disk full?") from error


def new_secret(identity: str) -> tuple[str, str]:
    """The text of a new token for this id, and what is stored of it."""
    import secrets

    secret = secrets.token_urlsafe(32)
    return f"{PREFIX}{identity}_{secret}", digest_of(secret)


def id_in(text: str) -> str | None:
    """The id in the text of a token, if it is one of a session."""
    head, _, _ = text[:LONGEST_TOKEN].removeprefix(PREFIX).partition("_")
    return head if text.startswith(PREFIX) and len(head) == ID_DIGITS else None


def is_right(text: str, known: StoredSession | None) -> bool:
    """Whether the secret is that of the session; takes as long for one that is not known."""
    _, _, secret = text[:LONGEST_TOKEN].removeprefix(PREFIX).partition("_")
    is_same = hmac.compare_digest(digest_of(secret), known.digest if known else NOBODY)
    return is_same and known is not None
