"""What Holdfast says of itself to who greets it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.vocabulary.results import Result


class HelloResult(Result, frozen=True, kw_only=True):
    """Versions, who asks, and how this Holdfast is reached."""

    version: str
    protocol: int
    pid: int
    keeper_pid: int
    keeper_version: str
    project: str
    state: str
    actor: str = ""
    """Who asked, as the audit calls them."""
    role: str = ""
    doors: dict[str, str] = {}
    """Where each open network door listens."""
    fingerprint: str | None = None
    """SHA-256 of the certificate that HTTPS shows."""
    no_assistants: str | None = None
    """Why assistants cannot connect here, if so."""
    runtime_mode: str = "proxy"
    lockdown: dict[str, Any] | None = None
    """The emergency lockdown in force: `reason`, `by`, `since`."""
    hidden: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The `values` that must not be shown, and the `number` under which they are known; only for
    who reads logs from their files, and if asked for."""
