"""The keys of services that are about sessions."""

from __future__ import annotations

from holdfast.adapters.config.blocks import Key
from holdfast.adapters.config.kinds import Choice

ON_SESSION_END = Key(
    "on_session_end",
    Choice("stop", "keep", "hand_over"),
    "When the session that started it ends; by default as the session says.",
)
