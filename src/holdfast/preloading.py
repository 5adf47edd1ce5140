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

    from holdfast.adapters import config, file_watch, inotify, port_holders, time_zones  # noqa: F401
    from holdfast.adapters.metrics import linux, portable  # noqa: F401
    from holdfast.adapters.probes import log  # noqa: F401
    from holdfast.app import limiting  # noqa: F401
    from holdfast.doors import tcp  # noqa: F401
    from holdfast.engine import taken_ports  # noqa: F401
    from holdfast.logbook import covering  # noqa: F401
    from holdfast.rules import commands, diagnosis, happenings, plan, schedule  # noqa: F401

    processes.preload()
    http_client.preload()
    registry.preload()
