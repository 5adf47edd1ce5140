"""What services print is recorded, whatever it is, and terminals are real."""

from __future__ import annotations

import hashlib
import json
import os
import time
from datetime import datetime, timezone

import pytest

from holdfast.vocabulary.errors import UsageError
from tests.harness import PYTHON, Hold, wait_for


def printer(code: str) -> list[str]:
    return [PYTHON, "-I", "-S", "-c", code]


def test_bytes_are_recorded_as_they_came(hold: Hold) -> None:
    """Invalid bytes, a split character, ANSI colours and a 5 MB line: the same bytes come back."""
    code = (
        "import os, time\n"
        "os.write(1, b'bad \\xff\\xfe byte\\n')\n"
        "os.write(1, b'split \\xe2\\x82'); time.sleep(0.05); os.write(1, b'\\xac end\\n')\n"
        "os.write(1, b'\\x1b[31mred\\x1b[0m\\n')\n"
        "data = b'x' * 5_000_000 + b'\\n'\n"
        "while data: data = data[os.write(1, data):]\n"
        "os.write(1, b'last\\n')\n"
    )
    hold.services(web={"command": printer(code), "restart_policy": "never"})
    hold.up(expect=None)
    hold.wait_status("web", "exited")
    expected = (b"bad \xff\xfe byte\nsplit \xe2\x82\xac end\n\x1b[31mred\x1b[0m\n"
                + b"x" * 5_000_000 + b"\nlast\n")  # fmt: skip
    assert hold.raw("web") == hold.raw("web", "--run", 1) == expected
    lines = [json.loads(line) for line in hold.cli("logs", "web", "--json").stdout.splitlines()]
    assert lines[0]["encoding"] == "base64"
    assert lines[1]["text"] == "split € end"
    assert lines[-1]["text"] == "last"


def test_a_gigabyte_stays_within_its_cap(hold: Hold) -> None:
    """1 GB of output: bounded disk, bounded memory of the keeper, the newest bytes are right."""
    code = (
        "import os\n"
        "block = b''.join(b'%099d\\n' % n for n in range(10000))\n"
        "for n in range(1000):\n"
        "    view = memoryview(block)\n"
        "    while view: view = view[os.write(1, view):]\n"
    )
    hold.services(
        web={"command": printer(code), "restart_policy": "never",
             "log": {"max_size": "16MB", "total_size": "64MB"}}
    )  # fmt: skip
    hold.up(expect=None)
    hold.wait_status("web", "exited", seconds=60)
    assert hold.service("web")["log_bytes"] == 1_000_000_000
    kept = sum(f.stat().st_size for f in (hold.state / "logs").glob("web.*.out"))
    assert 30_000_000 < kept <= 64 * 1024 * 1024 + 17_000_000
    raw = hold.raw("web")
    block = b"".join(b"%099d\n" % n for n in range(10000))
    assert raw.endswith(block)
    with open(f"/proc/{hold.keeper_pid}/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    assert peak < 60_000, f"{peak} KiB"


def test_resume_reading_by_cursor(hold: Hold) -> None:
    """Reading in pieces by cursor gives every line once, over a restart of the supervisor."""
    code = "for n in range(500): print(n, flush=True)\nimport time; time.sleep(300)"
    hold.services(web=printer(code))
    hold.up()
    wait_for(lambda: hold.service("web")["log_bytes"] == sum(len(f"{n}\n") for n in range(500)))
    seen: list[str] = []
    cursor = None
    for piece in range(20):
        answer = hold.ask("logs", service="web", cursor=cursor, limit=37,
                          **({} if cursor else {"since": 0.0}))  # fmt: skip
        seen += [line["text"] for line in answer["lines"]]
        cursor = answer["cursor"]
        if piece == 5:
            old = hold.supervisor_pid
            os.kill(old, 9)
            wait_for(lambda old=old: hold.supervisor_pid != old)
    assert seen == [str(n) for n in range(500)]


def test_tail_since_grep_run_stream(hold: Hold) -> None:
    """logs selects by count, time, pattern, run and stream."""
    hold.services(
        web={"command": ["sh", "-c", "echo out $$; echo err >&2; echo needle; sleep 300"]}
    )
    hold.up()
    wait_for(lambda: hold.raw("web").count(b"\n") == 3)
    hold.cli("restart", "web")
    wait_for(lambda: hold.raw("web").count(b"\n") == 6)

    def text(*args: object) -> str:
        return hold.cli("logs", "web", "--no-prefix", *args).stdout

    assert text("--stream", "err") == "err\nerr\n"
    assert text("--grep", "nee.le") == "needle\nneedle\n"
    assert text("--tail", 1).strip() in ("needle", "err")
    assert len(text("--run", 1).splitlines()) == 3
    assert len(text("--run", 2).splitlines()) == 3
    assert "no output of run 99" in hold.cli("logs", "web", "--run", 99, expect=3).stderr
    wait_for(
        lambda: [run["log_bytes"] > 0 for run in hold.json("runs", "web")["runs"]] == [True] * 2
    )
    assert text("--since", "1h").count("\n") == 6
    second = hold.json("runs", "web")["runs"][0]["started_at"]
    until = datetime.fromtimestamp(second, timezone.utc).isoformat()
    assert text("--until", until).count("\n") == 3
    assert text("--until", until, "-n", 1).strip() in ("needle", "err")
    assert "leave one of them out" in hold.cli("logs", "-f", "--until", "1m", expect=2).stderr
    assert hold.raw("web", "--stream", "err") == b"err\nerr\n"


def test_terminal_service(hold: Hold) -> None:
    """A terminal service sees a terminal of 80×24, xterm-color; input reaches it; resize works."""
    hold.services(
        shell={
            "command": ["sh", "-c", "tty; echo $TERM; stty size; read line; echo got $line; "
                        "stty size; sleep 300"],
            "terminal": True,
        }
    )  # fmt: skip
    hold.up()
    wait_for(lambda: b"24 80" in hold.raw("shell"))
    raw = hold.raw("shell")
    assert b"xterm-color" in raw
    assert b"/dev/" in raw
    hold.ask("resize", service="shell", cols=100, rows=40)
    import base64

    hold.ask("send_input", service="shell", data=base64.b64encode(b"hello\n").decode())
    wait_for(lambda: b"got hello" in hold.raw("shell"))
    wait_for(lambda: b"40 100" in hold.raw("shell"))


@pytest.mark.parametrize("data", ["aGVsbG8K!!!!", '"one\\n"', "b25lCg", "aGVsbG8ü"])
def test_input_that_is_no_base64(hold: Hold, data: str) -> None:
    """It is refused with a hint, and nothing of it is written."""
    hold.services(cat={"command": ["cat"], "stdin": "pipe"})
    hold.up()
    with pytest.raises(UsageError, match="data is no base64") as refused:
        hold.ask("send_input", service="cat", data=data)
    assert refused.value.hint
    assert data not in refused.value.message + refused.value.hint
    hold.ask("send_input", service="cat", data="YWZ0ZXIK")
    wait_for(lambda: hold.raw("cat") == b"after\n")


def test_pause_stops_the_cpu(hold: Hold) -> None:
    """A paused tree uses no CPU; resume continues it; state and process agree."""
    hold.services(web=["sh", "-c", "(while :; do :; done) & while :; do :; done"])
    hold.up()
    pids = wait_for(
        lambda: len(p := [x["pid"] for x in hold.json("ps")["services"]["web"]]) == 2 and p
    )

    def ticks() -> int:
        total = 0
        for pid in pids:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total

    hold.cli("pause", "web")
    assert hold.service("web")["status"] == "paused"
    before = ticks()
    time.sleep(0.5)
    assert ticks() - before <= 1
    assert hold.json("pause", "web")["services"]["web"]["outcome"] == "already_paused"
    hold.cli("resume", "web")
    assert hold.service("web")["status"] == "running"
    now = ticks()
    wait_for(lambda: ticks() > now)
    hold.cli("pause", "web")
    hold.cli("stop", "web")
    assert hold.service("web")["status"] == "stopped"


@pytest.mark.parametrize("terminal", [False, True])
def test_flood_is_complete(hold: Hold, terminal: bool) -> None:
    """Twenty megabytes at full speed: the recorded bytes are the printed bytes."""
    code = (
        "import os\n"
        "block = b''.join(b'%09d\\n' % n for n in range(6000))\n"
        "for n in range(333):\n"
        "    view = memoryview(block)\n"
        "    while view: view = view[os.write(1, view):]\n"
    )
    hold.services(web={"command": printer(code), "restart_policy": "never", "terminal": terminal})
    hold.up(expect=None)
    hold.wait_status("web", "exited", seconds=60)
    block = b"".join(b"%09d\n" % n for n in range(6000))
    printed = block * 333
    if terminal:
        printed = printed.replace(b"\n", b"\r\n")
    raw = hold.raw("web")
    assert len(raw) == len(printed)
    assert hashlib.sha256(raw).digest() == hashlib.sha256(printed).digest()
