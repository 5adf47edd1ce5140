"""Paths as they are typed, for the supervisor, which does not stand in this folder."""

from __future__ import annotations

import os
import re

from holdfast.cli.call import Call

_ROOTED = re.compile(r"[a-z0-9][a-z0-9._-]*:")


def given(call: Call, path: str) -> str:
    if not _ROOTED.match(path):
        path = os.path.normpath(os.path.join(os.path.realpath(call.folder), path))
    try:
        path.encode()
    except UnicodeEncodeError:
        from urllib.parse import quote_from_bytes

        return "uri:" + quote_from_bytes(os.fsencode(path), safe="/:")
    return path
