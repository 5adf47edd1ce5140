"""Logins at remote MCP servers, by OAuth: begun, finished, renewed and taken back.

A login is made apart from every call: an address for the user's browser goes out, and what the
browser was sent back to comes in. In a call a token that has run out is renewed, once for all
calls that wait; if that fails, the call is told that a login is needed. The library of the
protocol does discovery, registration and the exchange; it is loaded with the first login. Stores
nothing: every new token is reported to the supervisor.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urljoin, urlsplit

from holdfast.system import deadlines
from holdfast.vocabulary.addresses import is_loopback

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider

REQUEST_SECONDS = 30.0
FLOW_SECONDS = 600.0
"""How long the user may take."""
RENEW_BEFORE_SECONDS = 15.0
_log = logging.getLogger(__name__)
Facts = dict[str, Any]


class LoginFailed(Exception):
    """There is no login, for this reason."""


def open_client(url: str, **more: Any) -> httpx2.AsyncClient:
    """Return a client for an address. A certificate of this machine's own is nobody else's
    affair."""
    import httpx2

    is_here = is_loopback(urlsplit(url).hostname or "")
    return httpx2.AsyncClient(verify=not is_here, trust_env=not is_here, **more)


class Login:
    """The tokens of one server, while they are used."""

    def __init__(self, facts: Mapping[str, Any], on_renewed: Callable[[Facts], None]) -> None:
        self._facts = dict(facts)
        self._on_renewed = on_renewed
        self._lock = asyncio.Lock()

    @property
    def token(self) -> str:
        return str(self._facts.get("access_token") or "")

    async def valid_token(self) -> str:
        """Return a token that has not run out, if one can be had."""
        expires = self._facts.get("expires_at")
        token = self.token
        if isinstance(expires, (int, float)) and time.time() > expires - RENEW_BEFORE_SECONDS:
            await self.renew(token)
        return self.token

    async def renew(self, used: str) -> bool:
        """Get another token than the used one; returns whether there is one. Calls that find the
        same token refused wait for one renewal."""
        async with self._lock:
            if self.token != used:
                return True
            refresh = self._facts.get("refresh_token")
            if not refresh:
                return False
            fields = {"grant_type": "refresh_token", "refresh_token": refresh}
            answer = await _post(self._facts, "token_endpoint", fields)
            if answer is None or not answer.get("access_token"):
                # A refresh token that was refused is used up; a server that is down is asked again.
                if answer is not None:
                    self._facts["refresh_token"] = None
                return False
            self._facts |= {
                "access_token": answer["access_token"],
                "refresh_token": answer.get("refresh_token") or refresh,
                "expires_at": _expiry(answer.get("expires_in")),
                "scope": answer.get("scope") or self._facts.get("scope"),
            }
            self._on_renewed(dict(self._facts))
            return True


async def revoke(facts: Mapping[str, Any]) -> bool:
    """Tell the server of the login that its tokens are not used any more; returns whether it took
    that back."""
    if not facts.get("revocation_endpoint"):
        return False
    is_done = False
    for kind in ("refresh_token", "access_token"):
        if facts.get(kind):
            fields = {"token": facts[kind], "token_type_hint": kind}
            is_done = await _post(facts, "revocation_endpoint", fields) == {} or is_done
    return is_done


async def _post(facts: Mapping[str, Any], endpoint: str, fields: Mapping[str, Any]) -> Facts | None:
    """Ask the server of the login; None if it cannot be reached, `{"error": …}` if it refuses."""
    import httpx2

    url, client_id = str(facts[endpoint]), str(facts.get("client_id") or "")
    secret, method = facts.get("client_secret"), facts.get("method")
    form = {**fields, "client_id": client_id}
    headers = {"accept": "application/json"}
    if facts.get("resource") and endpoint == "token_endpoint":
        form["resource"] = facts["resource"]
    if secret and method == "client_secret_basic":
        pair = f"{quote(client_id, safe='')}:{quote(str(secret), safe='')}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif secret:
        form["client_secret"] = secret
    try:
        async with open_client(url, timeout=REQUEST_SECONDS) as client:
            response = await client.post(url, data=form, headers=headers)
            if response.status_code >= 500:
                return None
            if response.status_code >= 400:
                return {"error": response.status_code}
            answer = response.json() if response.content else {}
            return answer if isinstance(answer, dict) else {}
    except (httpx2.HTTPError, OSError, ValueError) as error:
        _log.info("%s: %s", urlsplit(url).hostname, error)
        return None


def _expiry(seconds: Any) -> float | None:
    return time.time() + float(seconds) if isinstance(seconds, (int, float)) else None


class LoginFlow:
    """One login, from the address that the user opens to the tokens."""

    def __init__(self, url: str, callback: str) -> None:
        loop = asyncio.get_running_loop()
        self._url = url
        self._callback = callback
        self._address: asyncio.Future[str] = loop.create_future()
        self._returned: asyncio.Future[Mapping[str, list[str]]] = loop.create_future()
        self._working: asyncio.Task[Facts] | None = None

    async def begin(self) -> str:
        """Return the address that the user opens."""
        self._working = asyncio.get_running_loop().create_task(self._run())
        working: asyncio.Future[Any] = self._working
        await asyncio.wait(
            [self._address, working], timeout=REQUEST_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if self._address.done():
            return self._address.result()
        if not working.done():
            self.close()
            raise LoginFailed("its login does not answer")
        working.result()
        raise LoginFailed("it asks for no login")

    async def finish(self, address: str) -> Facts:
        """Return the tokens. `address` is what the user's browser was sent to."""
        assert self._working is not None
        given = parse_qs(urlsplit(address.strip()).query)
        if "error" in given:
            told = given.get("error_description") or given["error"]
            self.close()
            raise LoginFailed(f"the login was refused: {told[0][:200]}")
        if "code" not in given:
            raise LoginFailed("this is not the address that the browser was sent to at the end")
        if not self._returned.done():
            self._returned.set_result(given)
        try:
            return await deadlines.wait_for(asyncio.shield(self._working), REQUEST_SECONDS)
        except TimeoutError:
            self.close()
            raise LoginFailed("its login does not answer") from None

    def close(self) -> None:
        if self._working is not None:
            self._working.cancel()

    async def _run(self) -> Facts:
        import httpx2
        from mcp.client.auth import OAuthClientProvider, OAuthFlowError
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        provider = OAuthClientProvider(
            self._url,
            OAuthClientMetadata(
                redirect_uris=[AnyUrl(self._callback)],
                client_name="Holdfast",
                grant_types=["authorization_code", "refresh_token"],
            ),
            storage=_NoStorage(),
            redirect_handler=self._show,
            callback_handler=self._wait_for_user,
        )
        probe = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"accept": "application/json, text/event-stream"}
        try:
            async with (
                open_client(self._url, timeout=REQUEST_SECONDS, auth=provider) as client,
                client.stream("POST", self._url, json=probe, headers=headers) as response,
            ):
                if response.status_code in (401, 403):
                    raise LoginFailed(f"it does not accept the login (HTTP {response.status_code})")
        except (httpx2.HTTPError, OSError, OAuthFlowError, ValueError) as error:
            raise LoginFailed(str(error) or type(error).__name__) from None
        return _facts_of(provider, self._url)

    async def _show(self, address: str) -> None:
        if not self._address.done():
            self._address.set_result(address)

    async def _wait_for_user(self) -> Any:
        from mcp.shared.auth import AuthorizationCodeResult

        try:
            given = await deadlines.wait_for(self._returned, FLOW_SECONDS)
        except TimeoutError:
            raise LoginFailed("nobody finished the login") from None
        first = {name: values[0] for name, values in given.items()}
        return AuthorizationCodeResult(
            code=first["code"], state=first.get("state"), iss=first.get("iss")
        )


def _facts_of(provider: OAuthClientProvider, url: str) -> Facts:
    """Return what is needed to use the login, and to renew it, when nothing else is left."""
    context = provider.context
    tokens, client, told = context.current_tokens, context.client_info, context.oauth_metadata
    if tokens is None or client is None:
        raise LoginFailed("it asks for no login")
    endpoint = told.token_endpoint if told is not None else None
    revocation = told.revocation_endpoint if told is not None else None
    return {
        "url": url,
        "issuer": str(told.issuer) if told is not None else None,
        "token_endpoint": str(endpoint or urljoin(url, "/token")),
        "revocation_endpoint": str(revocation) if revocation else None,
        "client_id": client.client_id,
        "client_secret": client.client_secret,
        "method": client.token_endpoint_auth_method,
        "resource": context.get_resource_url()
        if context.protocol_version is not None or context.protected_resource_metadata is not None
        else None,
        "access_token": tokens.access_token,
        "refresh_token": tokens.refresh_token,
        "expires_at": _expiry(tokens.expires_in),
        "scope": tokens.scope,
    }


class _NoStorage:
    """The supervisor stores what a flow ends with; nothing is stored before."""

    async def get_tokens(self) -> None:
        return None

    async def set_tokens(self, tokens: Any) -> None:
        return None

    async def get_client_info(self) -> None:
        return None

    async def set_client_info(self, client_info: Any) -> None:
        return None
