"""An MCP server that asks for a login, and the authorization server of that login.

The routes, their checks and PKCE are those of the protocol's own library; here are the tokens.
PORT is where it listens, LEDGER the file of what was asked. `POST /expire` forgets all access
tokens, `POST /revoke` all refresh tokens as well.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

PORT = int(os.environ["PORT"])
BASE = f"http://127.0.0.1:{PORT}"
LIFETIME = 3600
TOOLS = [
    {"name": "who", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "add", "inputSchema": {"type": "object"}},
]


def note(text: str) -> None:
    with open(os.environ["LEDGER"], "a") as file:
        file.write(text + "\n")


class Provider:
    """Accepts every client and every user."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        note("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        note("authorize")
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        note("code")
        del self.codes[authorization_code.code]
        return self._tokens(str(client.client_id))

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        found = self.refresh.get(refresh_token)
        if found is None:
            note("refused")
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        note("refresh")
        del self.refresh[refresh_token.token]
        return self._tokens(str(client.client_id))

    def _tokens(self, client: str) -> OAuthToken:
        access, refresh = secrets.token_hex(20), secrets.token_hex(20)
        self.access[access] = AccessToken(token=access, client_id=client, scopes=["use"])
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client, scopes=["use"])
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=LIFETIME, scope="use"
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        note("revoke")
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        raise NotImplementedError


PROVIDER = Provider()


async def serve_mcp(request: Request) -> Response:
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token not in PROVIDER.access:
        note("401")
        told = f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource/mcp"'
        return Response(status_code=401, headers={"www-authenticate": told})
    message = await request.json()
    if message.get("id") is None:
        return Response(status_code=202)
    params = message.get("params") or {}
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "guarded", "version": "1"},
        },
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": f"did {params.get('name')}"}]},
        "ping": {},
    }
    if message["method"] == "tools/call":
        note(f"call {params['name']}")
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
    return JSONResponse(answer)


async def expire(_: Request) -> Response:
    PROVIDER.access.clear()
    return Response()


async def revoke(_: Request) -> Response:
    PROVIDER.access.clear()
    PROVIDER.refresh.clear()
    return Response()


APP = Starlette(
    routes=[
        Route("/mcp", serve_mcp, methods=["POST"]),
        Route("/expire", expire, methods=["POST"]),
        Route("/revoke-all", revoke, methods=["POST"]),
        *create_protected_resource_routes(
            AnyHttpUrl(f"{BASE}/mcp"), [AnyHttpUrl(BASE)], scopes_supported=["use"]
        ),
        *create_auth_routes(
            PROVIDER,
            AnyHttpUrl(BASE),
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["use"], default_scopes=["use"]
            ),
            revocation_options=RevocationOptions(enabled=True),
        ),
    ]
)


class Announcing(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        sys.stderr.write("listening\n")
        sys.stderr.flush()


if __name__ == "__main__":
    Announcing(uvicorn.Config(APP, host="127.0.0.1", port=PORT, log_level="error")).run()
