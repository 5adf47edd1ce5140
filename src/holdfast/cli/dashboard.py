"""`holdfast dashboard`: a link that logs a browser in, opened where there is a screen."""

from __future__ import annotations

import os
import sys

from holdfast.cli.call import Call
from holdfast.cli.terminal import durations


def dashboard(call: Call) -> int:
    fields: dict[str, object] = {"role": call.options.get("role") or "admin"}
    if "expires" in call.options:
        fields["expires_in"] = call.options["expires"]
    link = call.ask("create_login", **fields)
    if call.is_json:
        call.emit(link)
        return 0
    fingerprint = link.get("fingerprint")
    if fingerprint:
        call.note(f"compare what the browser says of the certificate: SHA-256 {fingerprint}")
    is_wanted = not (call.options.get("print") or call.options.get("no_open"))
    if is_wanted and has_screen(call) and _open(link["url"]):
        call.say("the dashboard opens in your browser")
        return 0
    call.say(link["url"])
    until, stay = durations.show(link["valid_for"]), durations.show(link["session_seconds"])
    call.note(f"works once, within {until}; logs in as {link['role']} for {stay}")
    return 0


def has_screen(call: Call) -> bool:
    """Whether a browser would be seen by who asks."""
    environ = call.environ
    if environ.get("SSH_CONNECTION") and not environ.get("DISPLAY"):
        return False
    if sys.platform == "darwin":
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _open(url: str) -> bool:
    """Whether a browser took it. What it prints is not for who asked."""
    import webbrowser

    quiet, kept = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    try:
        os.dup2(quiet, 2)
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
    finally:
        os.dup2(kept, 2)
        os.close(quiet)
        os.close(kept)
