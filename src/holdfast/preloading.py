"""What a supervisor loads in the background, right after it is up.

Whatever is deferred at its start is loaded here within seconds, never «when first needed» days
later: the files on disk may be another version by then.
"""

from __future__ import annotations

import sys

from holdfast.adapters import http_client, processes
from holdfast.app import registry


def preload() -> None:
    import mmap  # noqa: F401 - the keeper's table is in one
    import secrets  # noqa: F401

    if sys.platform == "darwin":
        import _posixshmem  # type: ignore[import-not-found]  # noqa: F401

    from holdfast.adapters import config, time_zones  # noqa: F401
    from holdfast.adapters.metrics import linux, portable  # noqa: F401
    from holdfast.adapters.ports import holders  # noqa: F401
    from holdfast.adapters.probes import log  # noqa: F401
    from holdfast.adapters.watch import file_watch, inotify  # noqa: F401
    from holdfast.app.authority import limited_answers  # noqa: F401
    from holdfast.doors import tcp  # noqa: F401
    from holdfast.engine.gate import port_conflicts  # noqa: F401
    from holdfast.rules import plan, schedule  # noqa: F401
    from holdfast.rules.authority import commands  # noqa: F401
    from holdfast.rules.explain import diagnosis, event_sentences  # noqa: F401
    from holdfast.secrets import log_redaction  # noqa: F401

    processes.preload()
    http_client.preload()
    registry.preload()
