"""Names and texts of others on the owner's terminal and in our log: they control neither."""

from __future__ import annotations

import json

from tests.harness import PYTHON, quick, wait_for
from tests.scenarios.test_tcp import NetHold, Wire

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eevil"
STATUS = (
    "import os, socket, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);"
    "a = os.environ['NOTIFY_SOCKET']; a = '\\0' + a[1:] if a[0] == '@' else a;"
    f"s.sendto(('READY=1\\nSTATUS=' + {HOSTILE!r}).encode(), a);"
    "time.sleep(1000)"
)


def test_nothing_reaches_the_terminal() -> None:
    """Not from file names, contents of files, states of services, requests or failures."""
    with NetHold() as hold:
        hold.write(
            {
                "port": hold.port,
                "services": {
                    "web": quick([PYTHON, "-c", STATUS], notify=True),
                    "broken": quick(["sh", "-c", "exit 3"], restart_policy="never",
                                    working_dir=HOSTILE, autostart=False),
                },
                "workflows": {"all": {"description": HOSTILE, "steps": ["echo x"]}},
            }
        )  # fmt: skip
        hold.open()
        (hold.project / HOSTILE.replace("/", "")).write_text(HOSTILE)
        with Wire(hold.port) as wire:
            for line in (f"token {HOSTILE}", json.dumps({"command": HOSTILE}), HOSTILE):
                wire.send(line.replace("\r", ""))
                assert "\x1b" not in wire.line()
        wait_for(lambda: "evil" in str(hold.service("web")) or hold.service("web")["status"])
        for verb in (
            *(["status"], ["events"], ["audit"], ["explain", "web"], ["explain", "broken"]),
            *(["files", "ls"], ["workflow"], ["start", "broken"], ["logs", HOSTILE]),
            *(["start", HOSTILE], ["explain", HOSTILE], ["token", "revoke", HOSTILE], ["ps"]),
        ):
            done = hold.cli(*verb, expect=None)
            for text in (done.stdout, done.stderr):
                assert not set(text) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"}, (verb, text)
        own = (hold.state / "holdfast.log").read_text()
        assert not set(own) & {"\x1b", "\x07", "\x9b", "\r", "\u202e"}
