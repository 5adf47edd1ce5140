"""All connections with one token, and whether that token is still valid.

Connections of one account get the same notices. The gate itself knows no token, so an account
asks the supervisor now and then, and holds one request open for each service that its viewers
follow. When the supervisor ends that request, the right is lost and the viewers are told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.events import RETRY_SECONDS, follow_events
from holdfast.gate.ws.frames import frame
from holdfast.vocabulary.errors import HoldfastError, Refused, Unauthorized
from holdfast.vocabulary.events import EventKind

if TYPE_CHECKING:
    from holdfast.gate.ws.door import WebSocketConnection

RECHECK_SECONDS = 10.0
MOST_CONNECTIONS = 256
"""Connections of one token."""
NOTICES = frozenset({EventKind.ALERT_RAISED.value, EventKind.ALERT_CLEARED.value})
"""Events that every connection gets without a subscription."""

OnLost = Callable[[HoldfastError], None]


class OpenGrant(NamedTuple):
    """The right to follow a service's output, held open at the supervisor."""

    listeners: set[OnLost]
    task: asyncio.Task[None]


class Account:
    """The connections of one token."""

    def __init__(self, actor: str, caller: Caller) -> None:
        self.room = f"user:{actor}"
        """The account's name on the wire."""
        self.caller = caller
        self.connections: dict[WebSocketConnection, None] = {}
        """The oldest first."""
        self.tasks: list[asyncio.Task[None]] = []
        self.grants: dict[str, OpenGrant] = {}

    def dismiss(self, error: HoldfastError) -> None:
        for connection in list(self.connections):
            connection.dismiss(error)

    def notify(self, event: str, data: Any, **more: Any) -> None:
        text = frame(event, data, room=self.room, **more)
        for connection in list(self.connections):
            connection.post(text)


class Accounts:
    """The accounts of all connections, by token."""

    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._channel = channel
        self._new_channel = new_channel
        self._accounts: dict[str, Account] = {}

    def join(self, connection: WebSocketConnection, caller: Caller, actor: str) -> Account | None:
        """Add a connection to its account; None if the account has too many already."""
        account = self._accounts.get(caller.token)
        if account is None:
            account = self._accounts[caller.token] = Account(actor, caller)
            create = asyncio.get_running_loop().create_task
            account.tasks = [create(self._recheck(account)), create(self._send_notices(account))]
        if len(account.connections) >= MOST_CONNECTIONS:
            return None
        account.connections[connection] = None
        return account

    def end_oldest_of_largest(self, token: str, error: HoldfastError) -> bool:
        """Make room for a connection of this token; False if no other token has more."""
        largest = max(self._accounts.values(), key=lambda one: len(one.connections), default=None)
        own = self._accounts.get(token)
        if largest is None or len(largest.connections) <= (len(own.connections) if own else 0) + 1:
            return False
        oldest = next(iter(largest.connections))
        del largest.connections[oldest]
        oldest.dismiss(error)
        return True

    async def leave(self, connection: WebSocketConnection, account: Account) -> None:
        account.connections.pop(connection, None)
        if account.connections or self._accounts.get(account.caller.token) is not account:
            return
        del self._accounts[account.caller.token]
        tasks = [*account.tasks, *(grant.task for grant in account.grants.values())]
        account.grants.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _recheck(self, account: Account) -> None:
        """Dismiss the account when its token is revoked or has expired."""
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                await self._channel.ask("hello", {}, account.caller, is_repeatable=True)
            except Refused as error:
                account.dismiss(error)
            except HoldfastError:
                continue

    # The right to follow a service

    def hold_grant(self, account: Account, service: str, on_lost: OnLost) -> Callable[[], None]:
        """Call `on_lost` as soon as this account may no longer follow the service. Returns a
        function that stops listening. The connections of an account share one request."""
        grant = account.grants.get(service)
        if grant is None:
            task = asyncio.get_running_loop().create_task(self._hold(account, service))
            grant = account.grants[service] = OpenGrant(set(), task)
        grant.listeners.add(on_lost)

        def release() -> None:
            grant.listeners.discard(on_lost)
            if not grant.listeners and account.grants.get(service) is grant:
                del account.grants[service]
                grant.task.cancel()

        return release

    async def _hold(self, account: Account, service: str) -> None:
        fields = {"service": service, "hold": True}
        while True:
            channel = self._new_channel()
            try:
                stream = channel.stream("open_output", fields, account.caller)
                async with aclosing(stream) as items:
                    async for _ in items:
                        continue
            except Unreachable:
                pass
            except HoldfastError as error:
                self._lose(account, service, error)
                return
            finally:
                await channel.close()
            await asyncio.sleep(RETRY_SECONDS)

    def _lose(self, account: Account, service: str, error: HoldfastError) -> None:
        grant = account.grants.pop(service, None)
        for on_lost in list(grant.listeners) if grant is not None else ():
            on_lost(error)
        if isinstance(error, Unauthorized):
            account.dismiss(error)

    # Notices

    async def _send_notices(self, account: Account) -> None:
        """Send alerts from now on, if this token may see events."""
        try:
            since = await self._newest_event(account.caller)
            events = follow_events(self._new_channel, account.caller, since, [])
            async with aclosing(events):
                async for event in events:
                    if event["kind"] in NOTICES:
                        account.notify(event["kind"], event, seq=event["seq"])
        except Unauthorized as error:
            account.dismiss(error)
        except HoldfastError:
            return  # this token may not see events

    async def _newest_event(self, caller: Caller) -> int:
        while True:
            try:
                answer = await self._channel.ask("events", {"limit": 1}, caller, is_repeatable=True)
                return int(answer["last"])
            except Unreachable:
                await asyncio.sleep(RETRY_SECONDS)
