"""Resolves a port that another process holds: finds out which, and never takes it by force.

An old gate of this same state folder is asked to give the port back. It proves its identity by the
header that every answer of a gate carries. The request carries a token that is good for nothing
else, because anybody can send such a header. Every other process is named and left alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from holdfast.adapters import http_client, processes
from holdfast.adapters.http_client import HttpError
from holdfast.adapters.own_log import logger
from holdfast.adapters.ports.holders import OF_PROJECT
from holdfast.adapters.ports.registry import is_free
from holdfast.adapters.tokens import Tokens
from holdfast.engine.gate.listeners import Listener, Listeners, PortTaken
from holdfast.vocabulary.names import HAND_OVER_PATH, IDENTITY_HEADER

TRIES = 3
ASK_SECONDS = 1.0
FREED_WITHIN_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 0.05
_HELD = re.compile(r"port (\d+) is used by ")
_log = logger("ports")


class PortOwner(NamedTuple):
    """The process that has a port. `instance` is what it claims to be, if it is a Holdfast."""

    described: str
    base: str = ""
    instance: str | None = None


class OpenedPort(NamedTuple):
    """A listening socket, with a note about its address."""

    listener: Listener
    note: str = ""
    is_handed_over: bool = False


class PortConflicts:
    """Resolves conflicts about the ports of this Holdfast's doors."""

    def __init__(self, listeners: Listeners, tokens: Tokens, instance: str) -> None:
        self._listeners = listeners
        self._tokens = tokens
        self._instance = instance

    async def settle(
        self,
        name: str,
        host: str,
        port: int,
        *,
        is_port_given: bool,
        certificate: str | None = None,
        end_leftovers: Callable[[], Awaitable[bool]] | None = None,
    ) -> OpenedPort:
        """Return a listening socket after all; raises PortTaken, which names the holder.

        `certificate` is the only one that is trusted: the one that our gate would show.
        `end_leftovers` ends runs of an earlier Holdfast that the keeper knows to be ours, and
        returns whether there were any.
        """
        holder = await self._holder(host, port, certificate)
        if holder.instance == self._instance:
            listener = await self._taken_over(name, host, port, is_port_given, holder, certificate)
            if listener is not None:
                return OpenedPort(listener, is_handed_over=True)
        if end_leftovers is not None and await end_leftovers():
            listener = await self._freed(name, host, port, is_port_given)
            if listener is not None:
                return OpenedPort(listener)
        held = f"port {port} is used by {holder.described}"
        if not is_port_given:
            return OpenedPort(self._listeners.open_next(name, host, port), held)
        raise PortTaken(
            f"{held}, which is left alone",
            "end it or configure another port, then `holdfast up` tries again",
        )

    async def _taken_over(
        self,
        name: str,
        host: str,
        port: int,
        is_port_given: bool,
        holder: PortOwner,
        certificate: str | None,
    ) -> Listener | None:
        """Return the port of an old gate that gives it back; None if it does not."""
        for number in range(1, TRIES + 1):
            is_told = await self._ask(holder, certificate)
            _log.info("port %d: an earlier gate is asked for it (%d): %s", port, number, is_told)
            # Even after a refusal: it may be about to end for other reasons.
            listener = await self._freed(name, host, port, is_port_given)
            if listener is not None:
                return listener
        return None

    async def _freed(self, name: str, host: str, port: int, is_port_given: bool) -> Listener | None:
        """Return the port once its holder has released it. The kernel does not announce that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FREED_WITHIN_SECONDS
        while loop.time() < deadline:
            try:
                return self._listeners.open(name, host, port, is_port_given=is_port_given)
            except PortTaken:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return None

    async def _ask(self, holder: PortOwner, certificate: str | None) -> bool:
        lent = self._tokens.lend("handover of a port", ASK_SECONDS * 5)
        try:
            answer = await http_client.request(
                holder.base + HAND_OVER_PATH,
                method="POST",
                headers={"Authorization": f"Bearer {lent.text}"},
                timeout_seconds=ASK_SECONDS,
                only=certificate,
            )
        except HttpError:
            return False
        finally:
            self._tokens.take_back(lent.token.id)
        return answer.is_success

    async def _holder(self, host: str, port: int, certificate: str | None) -> PortOwner:
        loop = asyncio.get_running_loop()
        described = await loop.run_in_executor(None, processes.holder_of_port, port)
        who = described or "an unknown process (another user's?)"
        for base in _bases(host, port, is_tls=certificate is not None):
            try:
                answer = await http_client.request(
                    base + "/health", timeout_seconds=ASK_SECONDS, only=certificate
                )
            except HttpError as error:
                _log.debug("port %d: %s", port, error)
                continue
            headers = {key.lower(): value for key, value in answer.headers}
            written = headers.get(IDENTITY_HEADER.lower())
            if written is None:
                return PortOwner(who)
            instance = written.encode("latin-1").decode(errors="replace")
            said = "an earlier gate of this" if instance == self._instance else "another"
            claim = (
                ""
                if OF_PROJECT in who and said == "another"
                else f"{said} Holdfast, {instance[:100]!a}: "
            )
            return PortOwner(f"{claim}{who}", base, instance)
        return PortOwner(who)


def notes_now(notes: Mapping[str, str]) -> dict[str, str]:
    """Return the notes about the doors as they are now: a holder may have released its port."""
    return {name: _note_now(note) for name, note in notes.items()}


def _note_now(note: str) -> str:
    held = _HELD.match(note)
    if held is None or not is_free(int(held[1])):
        return note
    return f"{note.replace(' is used by ', ' was used by ', 1)}; it is free now"


def _bases(host: str, port: int, *, is_tls: bool) -> list[str]:
    reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    if ":" in reached and not reached.startswith("["):
        reached = f"[{reached}]"
    schemes = ("https", "http") if is_tls else ("http",)
    return [f"{scheme}://{reached}:{port}" for scheme in schemes]
