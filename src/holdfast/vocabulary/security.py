"""Tokens and the audit: commands and their answers."""

from __future__ import annotations

from typing import Any

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class TokenInfo(Result, frozen=True, kw_only=True):
    """A token, without its text. `kind`: token, link (logs in once) or browser (a cookie)."""

    id: str
    name: str
    role: str
    kind: str = "token"
    created_at: float
    expires_at: float | None = None
    scopes: dict[str, Any] = {}
    by: str | None = None
    """The token that it was made with, and ends with; None: the owner made it."""


class TokenResult(Result, frozen=True, kw_only=True):
    """`text` is the token itself; it is told only when it is made."""

    token: TokenInfo
    text: str | None = None
    also: list[str] = []
    """Names of the tokens that were made with a revoked one, and are revoked as well."""
    sessions: list[str] = []
    """Sessions that were opened with any of them, and are closed."""


class TokensResult(Result, frozen=True, kw_only=True):
    tokens: list[TokenInfo]


class AuditVerdict(Result, frozen=True, kw_only=True):
    """Whether the audit is whole, and where it is not."""

    whole: bool
    records: int
    first: int
    last: int
    problem: str | None = None
    anchors: list[dict[str, Any]] = []
    """Where the head is written as well, and whether each place was compared."""


class AuditResult(Result, frozen=True, kw_only=True):
    records: list[dict[str, Any]]
    last: int
    """The newest number: ask again with `since` = last."""
    verdict: AuditVerdict | None = None


class AccessResult(Result, frozen=True, kw_only=True):
    """The decision about a request that nobody made."""

    allowed: bool
    reason: str
    needs_approval: bool = False
    """It would wait until somebody approves it."""
    approvers: str | None = None
    """The least role that may approve it."""
    cause: str | None = None
    """The cause of a refusal in a word: role, scope, lockdown, policy, filter, allowlist, door."""
    who: str
    """The actor as the audit would name it."""


class CreateToken(Command, frozen=True, kw_only=True):
    """Make a token for a program or a person; its text is shown this once.

    `role` is viewer, operator, admin or agent. `commands`, `services`, `tags`, `paths` and
    `tools` (of MCP servers) limit it further (patterns with `*`). `expires_in` is in seconds.
    A token that is made with another ends with that one.
    """

    name = "create_token"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = TokenResult
    route = ("POST", "/api/tokens")
    token_name: str
    role: str = "operator"
    commands: list[str] | None = None
    services: list[str] | None = None
    tags: list[str] | None = None
    paths: list[str] | None = None
    tools: list[str] | None = None
    """Of MCP servers, as SERVER__TOOL."""
    expires_in: float | None = None


class ListTokens(Command, frozen=True, kw_only=True):
    """List the tokens: names, roles and limits, never their texts."""

    name = "list_tokens"
    permission = Permission.ADMINISTER
    effect = Effect.READS
    answers = TokensResult
    route = ("GET", "/api/tokens")


class RevokeToken(Command, frozen=True, kw_only=True):
    """Take a token back, by its name or id; it is refused from now on.

    So are the tokens that were made with it, and theirs; sessions of them are closed.
    """

    name = "revoke_token"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    in_lockdown = True
    answers = TokenResult
    route = ("POST", "/api/tokens/revoke")
    token: str


class RotateToken(Command, frozen=True, kw_only=True):
    """Give a token a new text and id; the old text is refused from now on.

    Name, role and limits stay, and it is valid as long again as it was when it was made.
    Tokens that were made with it stay valid. Sessions that were opened with the old text are
    closed. The new text is shown this once.
    """

    name = "rotate_token"
    permission = Permission.ADMINISTER
    effect = Effect.CHANGES
    answers = TokenResult
    route = ("POST", "/api/tokens/rotate")
    token: str


class CheckAccess(Command, frozen=True, kw_only=True):
    """Tell whether somebody may give a command now, and why; nothing is done.

    `who` is a token's name or id, or a role. `about` is the command, `services` and `arguments`
    its fields, and `door` the door through which it would be asked. The answer is the decision
    itself: rights, limits, lockdown, policies and filters. A policy may ask for an approval.
    """

    name = "check_access"
    permission = Permission.ADMINISTER
    effect = Effect.READS
    answers = AccessResult
    route = ("POST", "/api/access/check")
    who: str
    about: str
    services: list[str] = []
    arguments: dict[str, Any] = {}
    door: str = "rest"


class Audit(Command, frozen=True, kw_only=True):
    """Show requests: the actor, the command, whether it was allowed and why, and how it ended.

    Records after the number `since`; without it, the newest `limit`. `actor` and `about` (a
    command) choose. `verify` looks whether any record was altered, removed or cut off.
    `follow` goes on with new ones.
    """

    name = "audit"
    permission = Permission.ADMINISTER
    effect = Effect.READS
    answers = AuditResult
    reads_content = True
    route = ("GET", "/api/audit")
    streams = True
    since: int | None = None
    after: float | None = None
    """Unix seconds: only records that are newer."""
    limit: int = 100
    actor: str | None = None
    about: str | None = None
    verify: bool = False
    follow: bool = False
