"""Names and texts of others on the owner's terminal and in our log: they control neither."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.harness import PYTHON, Hold, quick, wait_for
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


def test_what_is_not_utf_8_is_told_or_refused() -> None:
    """Words of the system are any bytes: seen, they are shown; asked for, they are refused."""
    odd = os.fsdecode(b"a\xff")
    child = "sh -c 'sleep 301; :' \"$(printf 'a\\377')\" & wait"
    with Hold() as hold:
        hold.services(web=quick(["sh", "-c", child]))
        hold.up()

        def commands() -> str:
            return str([it["command"] for it in hold.json("ps", "web")["services"]["web"]])

        wait_for(lambda: "a\ufffd" in commands())
        assert "not UTF-8" in hold.cli("run", "--", "sleep", "300", odd, expect=2).stderr
        strange = ["sh", "-c", "sleep 300; :", odd]
        with subprocess.Popen(strange, start_new_session=True) as stranger:
            try:
                done = hold.cli("adopt", "--pid", stranger.pid, "old", expect=1)
                assert "is not UTF-8" in done.stderr
                assert list(hold.status()["services"]) == ["web"]
            finally:
                os.killpg(stranger.pid, signal.SIGKILL)


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
def test_a_folder_that_is_not_utf_8_has_no_holdfast() -> None:
    """Refused at once: what begins there could neither be asked anything nor be ended."""
    with Hold() as hold:
        folder = hold.folder / os.fsdecode(b"d\xff")
        folder.mkdir()
        done = hold.cli("run", "--", "sleep", "300", cwd=folder, expect=2)
        assert "d\\xff is not UTF-8" in done.stderr
        assert hold.cli("ls", "--json").stdout.count("pid") == 0


def test_a_locale_changes_no_name() -> None:
    """Where Python takes names of files for ASCII, the same Holdfast is met as anywhere else."""
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with Hold() as hold:
        hold.project = hold.project.rename(hold.folder / "grüße")
        hold.services(web=quick(["sh", "-c", 'pwd; echo "$LC_ALL"; exec sleep 1000']))
        hold.up(environ=ascii_only)
        wait_for(lambda: hold.raw("web").split() == [str(hold.project).encode(), b"C"])
        assert hold.service("web")["status"] == "running"
        assert "running" in hold.cli("status", environ=ascii_only).stdout
        assert "gr??e" in hold.cli("ls", environ=ascii_only).stdout
        assert "grüße" in hold.cli("ls").stdout
        hold.cli("down", environ=ascii_only)
        assert "nothing runs here" in hold.cli("status", expect=4).stderr
