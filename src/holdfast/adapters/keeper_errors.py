"""The keeper's refusals as errors of ours."""

from __future__ import annotations

from typing import Any

from holdfast.adapters.own_log import logger
from holdfast.vocabulary.errors import Failed, KeeperGone, SpawnFailed

_log = logger("keeper_link")
Message = dict[str, Any]


def error_of(reply: Message) -> Failed | SpawnFailed | KeeperGone:
    """The keeper's refusal as an error of ours."""
    error = reply.get("error") or {}
    code, message = error.get("code"), str(error.get("message") or "the keeper refused")
    if code == "keeper_gone":
        return KeeperGone(message, "it is being replaced; try again")
    if code == "spawn_failed":
        return SpawnFailed(message, "", {"stage": error.get("stage")})
    return Failed(message, "", {"keeper_code": code})


def log_refusal(reply: Message) -> None:
    """For requests whose answer nobody waits for; that the keeper is gone is told elsewhere."""
    error = reply.get("error") or {}
    if not reply.get("ok") and error.get("code") != "keeper_gone":
        _log.warning("the keeper refused: %s", error)
