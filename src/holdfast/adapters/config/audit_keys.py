"""The `audit:` of a configuration: where the head of the audit is written as well."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from holdfast.adapters.config.alert_keys import SecretUrl
from holdfast.adapters.config.blocks import Block, Key, Values
from holdfast.adapters.config.env_file import resolved
from holdfast.adapters.config.kinds import Boolean, Duration, Reading, Text
from holdfast.vocabulary.addresses import is_loopback
from holdfast.vocabulary.specs.audit import AnchorSpec

SHORTEST_SECONDS = 1.0
ANCHOR = Block(
    [
        Key("file", Text(), "A file that each head is appended to, relative to this file."),
        Key("syslog", Boolean(), "Tell the system's log.", False),
        Key("url", SecretUrl(), "An https address that gets each head by POST."),
        Key(
            "every",
            Duration("s", is_zero_allowed=False),
            "The least time between two heads.",
            "1m",
        ),
    ],
    definition="audit_anchor",
    synonyms={"path": "file", "webhook": "url", "interval": "every"},
)
AUDIT_BLOCK = Block(
    [Key("anchor", ANCHOR, "Where the newest number and hash of the audit are written, too.")],
    definition="audit",
)
AUDIT = Key("audit", AUDIT_BLOCK, "Who did what: how the record is made safe against rollback.")


def anchor_of(reading: Reading, values: Values) -> AnchorSpec:
    """The anchors that a configuration names."""
    block: Values | None = (values.get("audit") or {}).get("anchor")
    if block is None or block.refused:
        return AnchorSpec()
    given = dict(block)
    if given.get("file"):
        path = resolved(given["file"], reading.folder, reading.environ)
        given["file"] = os.path.normpath(path)
    url = given.get("url") or ""
    if url.lower().startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
        message = "everybody on the way can change what is sent by http"
        reading.note(block.at("url"), block.path_of("url"), message, "write https://…")
    if given.get("every", SHORTEST_SECONDS) < SHORTEST_SECONDS:
        reading.note(block.at("every"), block.path_of("every"), "at least 1s", "write every: 1m")
    spec = AnchorSpec(**given)
    if spec.is_empty:
        hint = "write file: …, syslog: true or url: https://…"
        reading.note(block.node, block.path, "an anchor needs a place", hint)
    return spec
