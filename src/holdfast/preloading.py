"""Imports in the background what the supervisor deferred at its start.

Deferred modules are imported within seconds, never «when first needed» days later: the files on
disk may be another version by then. A keeper also runs `preload` to test a newly installed version
before it switches to it, so this module and `preload` must stay here.
"""

from __future__ import annotations

import sys

from holdfast.adapters import http_client, processes
from holdfast.app import registry


def preload() -> None:
    """Import everything that is not imported yet."""
    import mmap  # noqa: F401 - the keeper's table is in one
    import secrets  # noqa: F401

    if sys.platform == "darwin":
        import _posixshmem  # type: ignore[import-not-found]  # noqa: F401

    from holdfast.adapters import config, time_zones  # noqa: F401
    from holdfast.adapters.metrics import linux, portable  # noqa: F401
    from holdfast.adapters.ports import holders  # noqa: F401
    from holdfast.adapters.probes import log  # noqa: F401
    from holdfast.adapters.watch import file_watch, inotify  # noqa: F401
    from holdfast.doors import tcp  # noqa: F401
    from holdfast.engine.gate import port_conflicts  # noqa: F401
    from holdfast.rules import plan, schedule  # noqa: F401
    from holdfast.rules.authority import commands  # noqa: F401
    from holdfast.rules.explain import diagnosis, event_sentences  # noqa: F401
    from holdfast.secrets import log_redaction  # noqa: F401

    processes.preload()
    http_client.preload()
    registry.preload()
