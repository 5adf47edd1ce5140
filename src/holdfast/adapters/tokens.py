"""Tokens: made here, shown once, stored as hashes in a file of mode 0600.

A token reads `holdfast_ID_SECRET`. The secret has 256 random bits, so a plain hash is enough, and a
comparison always takes the same time. The file is apart from the history, so that losing the
history loses no token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.system.private_files import read_plain, replace_file
from holdfast.vocabulary.actors import TOKEN_ROLES, UNLIMITED, Role, Scopes
from holdfast.vocabulary.errors import Failed, Refused, UsageError
from holdfast.vocabulary.readers import reader

PREFIX = "holdfast_"
ADMIN_NAME = "first admin"
MOST_TOKENS = 1000
LOGIN_ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
NOTHING = Scopes(commands=())
TO_LOG_IN = Scopes(commands=("log_in",))
LONGEST_NAME = 100
LONGEST_SECONDS = 100 * 365.25 * 86400
LONGEST_TOKEN = 200
SHORTEST_SECRET = 43
"""The length of 256 random bits as text. A shorter one was written into the file by hand."""
NOBODY = hashlib.sha256(b"nobody").hexdigest()
"""An unknown secret is compared with this hash, so that it takes just as long."""
_log = logger("tokens")


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a token."""

    id: str
    name: str
    role: Role
    digest: str
    created_at: float
    expires_at: float | None = None
    scopes: Scopes = Scopes()
    kind: Literal["token", "link", "browser"] = "token"
    """A link is exchanged for a browser's cookie, once; it opens nothing else."""
    page_digest: str | None = None
    """The hash of the text that the pages of a logged-in browser send beside the cookie."""
    session_seconds: float | None = None
    """How long a browser stays logged in after it used this link."""
    origin: str | None = None
    """The id of the token that made this one. It ends with that token. None: the owner made it."""
    by: str | None = None
    """The name of the actor that made it; None: the owner."""


class NewToken(NamedTuple):
    """A token with its text, which is shown only once."""

    token: Token
    text: str


_decode = reader(list[Token])


class Tokens:
    """All tokens of one Holdfast."""

    def __init__(self, state: str, clock: Callable[[], float] = time.time) -> None:
        self._path = os.path.join(state, "tokens.json")
        self._admin_path = os.path.join(state, "admin.token")
        self._clock = clock
        self._all: dict[str, Token] = {}
        self._lent: dict[str, Token] = {}
        self.on_revoked: Callable[[], None] = lambda: None

    def load(self) -> None:
        """Read the stored tokens; the first time, make one for an admin."""
        try:
            self._all = {token.id: token for token in _decode(read_plain(self._path))}
        except FileNotFoundError:
            self._make_first()
        except (OSError, msgspec.MsgspecError) as error:
            # Fail closed: no token is accepted until the file is repaired.
            _log.error("%s cannot be read, no token is accepted: %s", self._path, error)
            self._all = {}

    def create(
        self,
        name: str,
        role: Role,
        *,
        expires_in: float | None = None,
        scopes: Scopes = UNLIMITED,
        origin: str | None = None,
        by: str | None = None,
    ) -> NewToken:
        """Make a token; it ends with its `origin` at the latest."""
        if role not in TOKEN_ROLES:
            known = ", ".join(role.value for role in TOKEN_ROLES)
            raise UsageError(f'a token cannot be "{role.value}"', f"one of {known}")
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise UsageError("a token needs a name", f"at most {LONGEST_NAME} printable letters")
        if any(token.name == name for token in self.list()):
            raise UsageError(f'a token "{name}" exists already', "revoke it first")
        if len(self._all) >= MOST_TOKENS:
            raise Refused(f"there are {MOST_TOKENS} tokens already", "revoke some")
        if expires_in is not None and not 0 < expires_in <= LONGEST_SECONDS:
            raise UsageError("a token expires within a hundred years", "for example 30d")
        made = self._new(name, role, expires_in, scopes, origin=origin, by=by)
        ends = [
            token.expires_at
            for token in (made.token, self._all.get(origin or ""))
            if token is not None
        ]
        end = min((one for one in ends if one is not None), default=None)
        token = msgspec.structs.replace(made.token, expires_at=end)
        self._store({**self._valid(), token.id: token})
        return NewToken(token, made.text)

    def list(self) -> list[Token]:
        return list(self._valid().values())

    def get(self, identity: str) -> Token | None:
        """Return the valid token of this id; for a browser's token, without the rights of its
        pages.
        """
        found = self._valid().get(identity)
        return found if found is None or found.page_digest is None else _looking(found)

    def expires_in(self, identity: str) -> float | None:
        """Return the seconds until this token expires; None: never, or there is none."""
        found = self._all.get(identity)
        if found is None or found.expires_at is None:
            return None
        return found.expires_at - self._clock()

    def origin_of(self, token: Token) -> str | None:
        """Return the id of the first token in the line of origins; None: the owner made it."""
        first, passed = token.origin, {token.id}
        while first is not None and first not in passed:
            passed.add(first)
            maker = self._all.get(first)
            if maker is None or maker.origin is None:
                break
            first = maker.origin
        return first

    def revoke(self, which: str) -> Sequence[Token]:
        """Revoke a token, by id or name, with all tokens that were made with it."""
        found = next(
            (token for token in self._all.values() if which in (token.id, token.name)), None
        )
        if found is None:
            raise self._unknown(which)
        left, gone = self._valid(), [found]
        left.pop(found.id, None)
        for maker in gone:
            made = [token for token in left.values() if token.origin == maker.id]
            gone += [left.pop(token.id) for token in made]
        self._store(left)
        self.on_revoked()
        return gone

    def rotate(self, which: str) -> tuple[Token, NewToken]:
        """Replace a token, by id or name, by one with a new secret; return both. Its role, limits
        and time of validity stay, and the tokens that were made with it stay valid."""
        old = next((token for token in self.list() if which in (token.id, token.name)), None)
        if old is None:
            raise self._unknown(which)
        if old.kind != "token":
            raise UsageError(f'"{old.name}" is a login', "revoke it, and log in again")
        period = None if old.expires_at is None else old.expires_at - old.created_at
        made = self._new(old.name, old.role, period, old.scopes, origin=old.origin, by=old.by)
        maker = self._all.get(old.origin or "")
        if maker is not None and maker.expires_at is not None:
            end = min(made.token.expires_at or maker.expires_at, maker.expires_at)
            made = NewToken(msgspec.structs.replace(made.token, expires_at=end), made.text)
        tokens = {made.token.id: made.token}
        for key, token in self._valid().items():
            if key != old.id:
                is_made_with_it = token.origin == old.id
                tokens[key] = (
                    msgspec.structs.replace(token, origin=made.token.id)
                    if is_made_with_it
                    else token
                )
        if old.name == ADMIN_NAME and os.path.exists(self._admin_path):
            replace_file(self._admin_path, made.text.encode() + b"\n")
        self._store(tokens)
        self.on_revoked()
        return old, made

    def _unknown(self, which: str) -> UsageError:
        known = ", ".join(token.name for token in self.list()) or "none"
        return UsageError(f'no token "{which}"', f"known: {known}")

    def find(self, text: str) -> Token | None:
        """Return the token of this text; None if it is unknown, revoked or expired.

        A browser's text is `TOKEN.PAGE`. The cookie alone may at most look, because browsers send
        it to every port of a host.
        """
        text, _, page = text[:LONGEST_TOKEN].partition(".")
        head, _, secret = text.removeprefix(PREFIX).partition("_")
        known = None
        if text.startswith(PREFIX):
            known = self._all.get(head) or self._lent.get(head)
        # Always compared, so that the time says nothing about which ids exist.
        is_right = hmac.compare_digest(digest_of(secret), known.digest if known else NOBODY)
        if known is None or not is_right or self._has_expired(known):
            return None
        if len(secret) < SHORTEST_SECRET:
            _log.warning(
                "the token %s is refused: its secret is short and easy to guess; revoke it, and "
                "make one with `holdfast token create`",
                known.name,
            )
            return None
        if known.page_digest is None or hmac.compare_digest(digest_of(page), known.page_digest):
            return known
        return _looking(known)

    def make_link(self, role: Role, *, valid_for: float, session_seconds: float) -> NewToken:
        """Make a link that logs one browser in, once."""
        if role not in LOGIN_ROLES:
            known = ", ".join(role.value for role in LOGIN_ROLES)
            raise UsageError(f'a browser cannot be "{role.value}"', f"one of {known}")
        if session_seconds <= 0:
            raise UsageError("a login cannot end before it begins", "for example 12h")
        made = self._new(
            "login link", role, valid_for, TO_LOG_IN, kind="link", session_seconds=session_seconds
        )
        token = msgspec.structs.replace(made.token, name=f"login link {made.token.id}")
        self._store({**self._valid(), token.id: token})
        return NewToken(token, made.text)

    def redeem(self, link: str) -> tuple[NewToken, str]:
        """Exchange a link, by its id, for a browser's token and the text for its pages."""
        import secrets

        valid = self._valid()
        known = valid.get(link)
        if known is None or known.kind != "link":
            raise Refused(
                "this link logs nobody in any more: it works once, and not for long",
                "`holdfast dashboard` makes a new one",
            )
        page = secrets.token_urlsafe(32)
        made = self._new(
            "browser", known.role, known.session_seconds, UNLIMITED,
            kind="browser", page_digest=digest_of(page),
        )  # fmt: skip
        token = msgspec.structs.replace(made.token, name=f"browser {made.token.id}")
        others = {key: other for key, other in valid.items() if key != link}
        self._store({**others, token.id: token})
        return NewToken(token, made.text), page

    def lend(self, name: str, valid_for: float) -> NewToken:
        """Make a token for a purpose of our own, in memory only; `take_back` ends it."""
        made = self._new(name, Role.VIEWER, valid_for, NOTHING)
        self._lent[made.token.id] = made.token
        return made

    def take_back(self, identity: str | None) -> bool:
        """End a lent token, and return whether it was one."""
        return self._lent.pop(identity or "", None) is not None

    def _make_first(self) -> None:
        made = self._new(ADMIN_NAME, Role.ADMIN, None, UNLIMITED)
        replace_file(self._admin_path, made.text.encode() + b"\n")
        self._store({made.token.id: made.token})

    def _new(
        self, name: str, role: Role, expires_in: float | None, scopes: Scopes, **more: Any
    ) -> NewToken:
        import secrets

        identity, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        now = self._clock()
        token = Token(
            id=identity,
            name=name,
            role=role,
            digest=digest_of(secret),
            created_at=now,
            expires_at=None if expires_in is None else now + expires_in,
            scopes=scopes,
            **more,
        )
        return NewToken(token, f"{PREFIX}{identity}_{secret}")

    def _valid(self) -> dict[str, Token]:
        return {key: token for key, token in self._all.items() if not self._has_expired(token)}

    def _has_expired(self, token: Token) -> bool:
        return token.expires_at is not None and self._clock() >= token.expires_at

    def _store(self, tokens: dict[str, Token]) -> None:
        """Write the file before anybody learns of it: a shown or revoked token stays so."""
        try:
            data = msgspec.json.format(msgspec.json.encode(list(tokens.values())))
            replace_file(self._path, data)
        except OSError as error:
            raise Failed(f"the tokens cannot be stored: {error}", "is the disk full?") from error
        self._all = tokens


def _looking(token: Token) -> Token:
    return msgspec.structs.replace(token, role=Role.VIEWER)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
