"""Who asks: the peer of a socket, the owner of a token, whom a client speaks for.

The only place where a credential becomes an actor. What that actor may do is not decided here.
"""

from __future__ import annotations

import os
from hashlib import sha256
from hmac import compare_digest
from typing import Any

from msgspec.structs import replace

from holdfast.adapters.tokens import Token
from holdfast.app.audit.auditor import Auditor
from holdfast.app.authority.supervised_peers import Supervised
from holdfast.rules.authority.permissions import role_of
from holdfast.rules.sessions import granted
from holdfast.system.peers import Peer
from holdfast.vocabulary.actors import Actor, Role, Scopes
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.errors import Refused, Unauthorized, UsageError

_LONGEST_CALL = 200
_VISITORS = Scopes(commands=("status", "health_check"))


class Identities:
    """Turns credentials into actors."""

    def __init__(self, context: Any, supervised: Supervised, auditor: Auditor) -> None:
        self._context = context
        self._supervised = supervised
        self._auditor = auditor

    def identify(self, peer: Peer) -> Actor:
        """The actor at the other end of a Unix socket; raises Refused for another user."""
        standing = self._supervised.standing_of(peer.process)
        is_supervised, run_id = standing.is_supervised, standing.run_id
        role = role_of(peer_uid=peer.uid, own_uid=os.geteuid(), is_supervised=is_supervised)
        if role is Role.STRANGER:
            raise Refused("this Holdfast belongs to another user", "use one of your own")
        pid = peer.process.pid if peer.process else "unknown"
        # What only the gate may say is offered to nobody else, and to it no more than to others.
        door = Door.GATE if self._is_gate(run_id, peer) else Door.CLI
        return Actor(role, f"uid {peer.uid} pid {pid}", run_id, door)

    def _is_gate(self, run_id: str | None, peer: Peer) -> bool:
        """Whether it is the gate's own process: its run id alone, everybody can claim."""
        if run_id is None or run_id != self._context.gate.run_id or peer.process is None:
            return False
        pid: object = self._context.link.runs.get(run_id, {}).get("pid")
        return pid == peer.process.pid

    @property
    def open_status(self) -> bool:
        """Whether who asks from this machine may see the status without a token."""
        door = self._context.settings.now.door
        return door is not None and door.open_status

    def visitor(self, door: Door) -> Actor:
        """Who may see the status and nothing else."""
        return Actor(Role.VIEWER, "visitor", None, door, _VISITORS)

    def identify_token(self, text: str, door: Door, call: str | None = None) -> Actor:
        """The actor who shows this token; raises Refused if it is none."""
        spec = self._context.settings.now.door
        if spec is not None and spec.token and compare_digest(text.encode(), spec.token.encode()):
            return _configured(spec.token, door)
        token = self._context.tokens.find(text)
        actor = self._of_session(text, door, call) if token is None else self._shown(token, door)
        if actor is None:
            self.refuse_stranger(door, "token")
            raise Unauthorized(
                "this token is not known, was revoked or has expired",
                "`holdfast token create NAME` makes one",
            )
        return actor

    def identify_caller(self, caller: Any) -> Actor:
        """Whom a client speaks for: it passes on the token that it was shown."""
        if not isinstance(caller, dict) or not isinstance(caller.get("token"), str):
            raise UsageError("a caller is an object with a token")
        try:
            door = Door(caller.get("door") or "rest")
        except ValueError:
            raise UsageError(f'no door "{caller["door"]}"') from None
        # Only narrower: what is offered on this machine alone is not offered to a caller.
        if door in (Door.CLI, Door.GATE):
            raise UsageError("a caller does not come through the local door")
        if not caller["token"]:
            return self._without_token(door, is_here=caller.get("here") is True)
        call = caller.get("call")
        return self.identify_token(
            caller["token"], door, str(call)[:_LONGEST_CALL] if call else None
        )

    def _without_token(self, door: Door, *, is_here: bool) -> Actor:
        if self.open_status and is_here and door is Door.REST:
            return self.visitor(door)
        self.refuse_stranger(door, "token")
        raise Unauthorized(
            "a token is needed",
            # Not as one would write it: what looks like credentials is hidden on its way out.
            "send a header `Authorization` of `Bearer` and the token; "
            "`holdfast token create NAME` makes one",
        )

    def _of_session(self, text: str, door: Door, call: str | None) -> Actor | None:
        """The actor of a session's token, with who opened it: never more than that one may."""
        session = self._context.sessions.find(text)
        if session is None:
            return None
        stored, behind = session.stored, None
        if stored.token is not None:
            behind = self._opener(stored.token, door)
            if behind is None:
                self._context.sessions.close_those_of({stored.token})
                return None
        elif stored.run_id is None:
            behind = Actor(Role.OWNER, stored.opened_by, None, door)
        mcp, is_supervised = self._context.settings.now.mcp, stored.run_id is not None
        return Actor(
            Role.AGENT,
            f"{stored.client} ({stored.opened_by})",
            stored.run_id,
            door,
            granted(mcp, is_supervised=is_supervised),
            session.name,
            behind,
            None,
            call,
        )

    def _opener(self, token: str, door: Door) -> Actor | None:
        """Who opened a session with this token; None if it is not valid any more."""
        found = self._context.tokens.get(token)
        if found is not None:
            return self._shown(found, door)
        spec = self._context.settings.now.door
        if spec is None or not spec.token:
            return None
        actor = _configured(spec.token, door)
        return actor if actor.token == token else None

    def _shown(self, token: Token, door: Door) -> Actor | None:
        """Whose token this is; None if the one that it was made with is not valid any more."""
        origin = self._context.tokens.origin_of(token)
        if origin is not None and self._opener(origin, door) is None:
            return None
        name = f"token {token.name}"
        return Actor(token.role, name, None, door, token.scopes, token=token.id, origin=origin)

    def is_still(self, actor: Actor) -> bool:
        """Whether who was identified so still is."""
        if actor.session is not None:
            present = self._context.sessions.present()
            if not any(session.name == actor.session for session in present):
                return False
        if actor.behind is not None and not self.is_still(actor.behind):
            return False
        return actor.token is None or self._opener(actor.token, actor.door) is not None

    def renewed(self, actor: Actor) -> Actor | None:
        """The same caller with the limits that hold for it now; None: it is not known any more."""
        if not self.is_still(actor):
            return None
        if actor.session is None:
            return actor
        mcp, is_supervised = self._context.settings.now.mcp, actor.run_id is not None
        return replace(actor, scopes=granted(mcp, is_supervised=is_supervised))

    def expires_in(self, actor: Actor) -> float | None:
        """Seconds until a token behind this caller expires; None: none does."""
        tokens = [it for it in (actor.token, actor.origin) if it is not None]
        moments = [self._context.tokens.expires_in(token) for token in tokens]
        if actor.behind is not None:
            moments.append(self.expires_in(actor.behind))
        return min((moment for moment in moments if moment is not None), default=None)

    def refuse_stranger(self, door: Door, asked: str, reason: str = "") -> None:
        """Put on record that somebody without a valid token was turned away."""
        self._auditor.turned_away(door, asked, reason)


def _configured(text: str, door: Door) -> Actor:
    # A session that it opened is of this text, not of whatever stands there later.
    identity = f"configuration {sha256(text.encode()).hexdigest()[:16]}"
    return Actor(Role.ADMIN, "token of the configuration", None, door, token=identity)
