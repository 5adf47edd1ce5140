"""Turns credentials into actors: the peer of a socket, a token, a token that a client passes on.

The only place where a credential becomes an actor. What that actor may do is not decided here.
"""

from __future__ import annotations

import os
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.adapters.tokens import Token
from holdfast.app.audit.auditor import Auditor
from holdfast.rules.authority.permissions import role_of
from holdfast.rules.sessions import granted
from holdfast.secrets.redaction import redact
from holdfast.system import peers, processes
from holdfast.system.peers import Peer, Standing
from holdfast.system.processes import Process
from holdfast.system.tcp_peers import TcpPeer
from holdfast.vocabulary.actors import TOKEN_ROLES, Actor, Role, Scopes
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.errors import Refused, Unauthorized, UsageError

if TYPE_CHECKING:
    from holdfast.app.context import Context

_LONGEST_CALL = 200
_VISITORS = Scopes(commands=("status", "health_check"))
_OPEN = "authentication off"
"""Stands for a token where the configuration asks for none."""


class Identities:
    """Turns credentials into actors."""

    def __init__(self, context: Context, auditor: Auditor) -> None:
        self._context = context
        self._auditor = auditor

    def identify(self, peer: Peer) -> Actor:
        """Return the actor at the other end of a Unix socket; raise Refused for another user.

        A supervised process gets the rights of its run, never those of the owner.
        """
        standing = self._standing_of(peer.process)
        is_supervised, run_id = standing.is_supervised, standing.run_id
        role = role_of(peer_uid=peer.uid, own_uid=os.geteuid(), is_supervised=is_supervised)
        if role is Role.STRANGER:
            raise Refused("this Holdfast belongs to another user", "use one of your own")
        pid = peer.process.pid if peer.process else "unknown"
        # Some commands are for the gate only; it gets no other rights by being the gate.
        door = Door.GATE if self._is_gate(run_id, peer) else Door.CLI
        return Actor(role, f"uid {peer.uid} pid {pid}", run_id, door)

    def _standing_of(self, process: Process | None) -> Standing:
        link = self._context.link
        mains: dict[str, tuple[Any, Any]] = {
            run_id: (run.get("pid"), run.get("start_time")) for run_id, run in link.runs.items()
        }
        return peers.standing_of(
            process,
            mains,
            cgroup_root=link.cgroup_root,
            keeper_pid=link.keeper_pid,
            supervisor_pid=os.getpid(),
            ceilings=link.ceilings,
        )

    def _is_gate(self, run_id: str | None, peer: Peer) -> bool:
        """Return whether it is the gate's own process. Any process can claim its run id."""
        if run_id is None or run_id != self._context.gate.run_id or peer.process is None:
            return False
        pid: object = self._context.link.runs.get(run_id, {}).get("pid")
        return pid == peer.process.pid

    @property
    def open_status(self) -> bool:
        """Whether a caller on this machine may see the status without a token."""
        door = self._context.settings.now.door
        return door is not None and door.open_status

    def identify_local(self, peer: TcpPeer | None, door: Door) -> Actor | None:
        """Return the actor of a process of this machine that shows no token at a network door.

        None unless it is certain that it is the owner's own and not supervised. It may see the
        status, and do everything where authentication is off.
        """
        if peer is None or peer.uid != os.geteuid() or not peer.processes:
            return None
        if any(self._standing_of(one).is_supervised is not False for one in peer.processes):
            return None
        name = f"uid {peer.uid} pid {peer.processes[0].pid}"
        if self._is_open:
            return Actor(Role.ADMIN, name, None, door, token=_OPEN)
        return Actor(Role.VIEWER, name, None, door, _VISITORS)

    @property
    def _is_open(self) -> bool:
        door = self._context.settings.now.door
        return door is not None and door.is_open

    def visitor(self, door: Door) -> Actor:
        """Return an actor who may see the status and nothing else."""
        return Actor(Role.VIEWER, "visitor", None, door, _VISITORS)

    def identify_token(self, text: str, door: Door, call: str | None = None) -> Actor:
        """Return the actor of a token; raise Unauthorized if it is not valid."""
        spec = self._context.settings.now.door
        if spec is not None and spec.token and compare_digest(text.encode(), spec.token.encode()):
            return _configured(spec.token, door)
        token = self._context.tokens.find(text)
        actor = (
            self._actor_of_session(text, door, call)
            if token is None
            else self._actor_of_token(token, door)
        )
        if actor is None:
            self.refuse_stranger(door, "token")
            raise Unauthorized(
                "this token is not known, was revoked or has expired",
                "`holdfast token create NAME` makes one",
            )
        return actor

    def identify_caller(self, caller: object, asker: Actor) -> Actor:
        """Return the actor that a client speaks for, by the token that the client passes on.

        Only the gate is believed which process it speaks for.
        """
        if not isinstance(caller, dict) or not isinstance(caller.get("token"), str):
            raise UsageError("a caller is an object with a token")
        try:
            door = Door(caller.get("door") or "rest")
        except ValueError:
            raise UsageError(f'no door "{caller["door"]}"') from None
        # A caller gets fewer rights, never more: local commands are not for callers.
        if door in (Door.CLI, Door.GATE):
            raise UsageError("a caller does not come through the local door")
        if not caller["token"]:
            if asker.door is Door.GATE:
                local = self.identify_local(_peer_from(caller.get("peer")), door)
                if local is not None:
                    return local
            return self._without_token(door, is_here=caller.get("here") is True)
        call = caller.get("call")
        return self.identify_token(
            caller["token"], door, str(call)[:_LONGEST_CALL] if call else None
        )

    def _without_token(self, door: Door, *, is_here: bool) -> Actor:
        if self.open_status and is_here and door is Door.REST:
            return self.visitor(door)
        self.refuse_stranger(door, "token")
        raise token_needed(door)

    def _actor_of_session(self, text: str, door: Door, call: str | None) -> Actor | None:
        """Return the actor of a session's token. Its rights never exceed those of the opener."""
        session = self._context.sessions.find(text)
        if session is None:
            return None
        if call is not None:
            self._context.sessions.note_call(session, redact(call))
        stored, behind = session.stored, None
        if stored.token is not None:
            behind = self._actor_of_id(stored.token, door)
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

    def _actor_of_id(self, token: str, door: Door) -> Actor | None:
        """Return the actor of a token's id; None if the token is not valid any more."""
        if token == _OPEN:
            return Actor(Role.ADMIN, token, None, door, token=token) if self._is_open else None
        found = self._context.tokens.get(token)
        if found is not None:
            return self._actor_of_token(found, door)
        spec = self._context.settings.now.door
        if spec is None or not spec.token:
            return None
        actor = _configured(spec.token, door)
        return actor if actor.token == token else None

    def actor_of(self, who: str, door: Door) -> Actor:
        """Return the actor that a token (by name or id) is, or that a role without limits is."""
        for token in self._context.tokens.list():
            if who in (token.id, token.name):
                actor = self._actor_of_token(token, door)
                if actor is None:
                    raise UsageError(f'the token that made "{who}" is not valid any more')
                return actor
        if who in (role.value for role in TOKEN_ROLES):
            return Actor(Role(who), f"any {who}", None, door)
        roles = ", ".join(role.value for role in TOKEN_ROLES)
        raise UsageError(
            f'no token and no role "{who}"', f"`holdfast token ls` lists tokens; roles are {roles}"
        )

    def _actor_of_token(self, token: Token, door: Door) -> Actor | None:
        """Return the actor of a token; None if the token that it was made with is not valid."""
        origin = self._context.tokens.origin_of(token)
        if origin is not None and self._actor_of_id(origin, door) is None:
            return None
        name = f"token {token.name}"
        return Actor(token.role, name, None, door, token.scopes, token=token.id, origin=origin)

    def is_valid(self, actor: Actor) -> bool:
        """Return whether the credentials behind this actor are still valid."""
        if actor.session is not None:
            present = self._context.sessions.present()
            if not any(session.name == actor.session for session in present):
                return False
        if actor.behind is not None and not self.is_valid(actor.behind):
            return False
        return actor.token is None or self._actor_of_id(actor.token, actor.door) is not None

    def refresh(self, actor: Actor) -> Actor | None:
        """Return the actor with the limits that hold for it now; None if it is not valid."""
        if not self.is_valid(actor):
            return None
        if actor.session is None:
            return actor
        mcp, is_supervised = self._context.settings.now.mcp, actor.run_id is not None
        return replace(actor, scopes=granted(mcp, is_supervised=is_supervised))

    def expires_in(self, actor: Actor) -> float | None:
        """Return the seconds until a token behind this actor expires; None: none does."""
        tokens = [token for token in (actor.token, actor.origin) if token is not None]
        moments = [self._context.tokens.expires_in(token) for token in tokens]
        if actor.behind is not None:
            moments.append(self.expires_in(actor.behind))
        return min((moment for moment in moments if moment is not None), default=None)

    def refuse_stranger(self, door: Door, asked: str, reason: str = "") -> None:
        """Put on record that a caller without a valid token was turned away."""
        self._auditor.turned_away(door, asked, reason)


def is_visitor(actor: Actor) -> bool:
    """Return whether it may see the status because of where it is, and shows no token."""
    return actor.role is Role.VIEWER and actor.token is None


def token_needed(door: Door) -> Unauthorized:
    """Return the refusal of a request without a token."""
    # Not as a literal header: text that looks like credentials is redacted.
    how = "send a header `Authorization` of `Bearer` and the token"
    if door is Door.TCP:
        how = "send a line `token TEXT` first"
    return Unauthorized("a token is needed", f"{how}; `holdfast token create NAME` makes one")


def _peer_from(told: Any) -> TcpPeer | None:
    """Return the peer that the gate found; None if one of its processes is there no more."""
    if not isinstance(told, dict):
        return None
    found: list[Process] = []
    for pid, start_time in told["processes"]:
        process = processes.live_process(pid)
        if process is None or process.start_time != start_time:
            return None
        found.append(process)
    return TcpPeer(told["uid"], found)


def _configured(text: str, door: Door) -> Actor:
    # By its digest: a session that it opened ends when the configuration has another token.
    identity = f"configuration {sha256(text.encode()).hexdigest()[:16]}"
    return Actor(Role.ADMIN, "token of the configuration", None, door, token=identity)
