"""`holdfast init` and `holdfast version`."""

from __future__ import annotations

import shlex
import sys

from holdfast import __version__
from holdfast.cli.call import Call
from holdfast.client.discovery import reach
from holdfast.vocabulary.errors import HoldfastError


def init(call: Call) -> int:
    from holdfast.cli.init import write_config

    option = call.options.get("config")
    named = option or call.environ.get("HOLDFAST_CONFIG")
    written = write_config(call.folder, force=bool(call.options.get("force")), name=named)
    if call.is_json:
        services, sources = list(written.services), list(written.sources)
        told = {"config": written.path, "services": services, "sources": sources}
        call.emit({**told, "notes": list(written.notes)})
        return 0
    for note in written.notes:
        call.note(note)
    call.say(f"wrote {written.path}")
    if written.sources:
        call.say(f"from {', '.join(written.sources)}: {', '.join(written.services)}")
    else:
        call.say("nothing was recognised here: put your own command in place of the example")
    call.say(f"look at it, then: holdfast {f'-c {shlex.quote(option)} ' if option else ''}up")
    return 0


def version(call: Call) -> int:
    """Never fails for want of a daemon."""
    daemon: dict[str, object] | None = None
    try:
        call.use(reach(call.places, patience=2.0, any_version=True))
        daemon = call.ask("hello", version=__version__)
    except HoldfastError:
        pass
    python = sys.version.split()[0]
    if call.is_json:
        call.emit({"version": __version__, "python": python, "daemon": daemon})
        return 0
    call.say(f"holdfast {__version__} (Python {python})")
    if daemon is not None:
        call.say(f"daemon   {daemon['version']} (keeper {daemon['keeper_version']})")
    return 0
