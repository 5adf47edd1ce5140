"""`holdfast check`: say what is wrong with a configuration, before anything runs."""

from __future__ import annotations

import os
import sys

from holdfast.cli.terminal import screen
from holdfast.cli.up import check_there_is_something, given_settings, tell_unread
from holdfast.client.launch import import_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.call import Call


def check(call: Call) -> int:
    check_there_is_something(call, only_declared=True)
    tell_unread(call, call.places.config)
    # Never from the project's own folder, which may have a module of the same name.
    sys.path[:] = import_path()
    from holdfast import checking

    places = call.places
    found = checking.check(places.config, call.environ, given_settings(call), places.project)
    if call.is_json:
        call.emit(found)
        return 0
    where = os.path.relpath(found["config"]) if found["config"] else "SUPERVISOR_TARGET_CMD"
    names = found["services"]
    call.say(f"{where} is in order: {screen.counted(len(names), 'service')}")
    for name in names:
        call.say(f"  {name}")
    return 0
