"""Pains of users whose logs filled the disk, lost lines, or fattened the daemon."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.harness import PYTHON, Hold, wait_for


def python(code: str) -> list[str]:
    return [PYTHON, "-I", "-S", "-c", code]


def peak_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


def peak_kib_of(argv: list[str], hold: Hold) -> int:
    """How much memory a command took at most; its parent is small, since exec keeps that peak."""
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    measured = [PYTHON, "-I", "-c", code, *argv]
    return int(subprocess.check_output(measured, cwd=hold.project, env=hold.environ, timeout=60))


def test_a_flood_does_not_pass_through_the_supervisor(hold: Hold) -> None:
    """The daemon grows to gigabytes, because every line goes through its memory."""
    code = (
        "import os, time\n"
        "block = b'x' * 99 + b'\\n'\n"
        "data = block * 600\n"
        "for n in range(2500):\n"
        "    view = memoryview(data)\n"
        "    while view: view = view[os.write(1, view):]\n"
        "print('done', flush=True); time.sleep(300)\n"
    )
    hold.services(web={"command": python(code), "log": {"max_size": "8MB", "total_size": "24MB"}})
    hold.up(expect=None)
    own = hold.status()["supervisor"]
    before = {pid: peak_kib(pid) for pid in (own["pid"], own["keeper_pid"])}
    hold.cli("wait", "web", "--for", "log:done", "--timeout", "60s")
    assert hold.service("web")["log_bytes"] == 2500 * 600 * 100 + 5
    for pid, peak in before.items():
        assert peak_kib(pid) < peak + 16_000
    kept = sum(path.stat().st_size for path in (hold.state / "logs").glob("web.*"))
    assert kept < 34_000_000


def test_an_endless_escape_sequence_costs_no_memory(hold: Hold) -> None:
    """One escape sequence without an end, and the reader's memory grows until it is killed."""
    code = (
        "import os, time\n"
        "os.write(1, b'\\x1b]0;')\n"
        "data = b'y' * 65536\n"
        "for n in range(480):\n"
        "    view = memoryview(data)\n"
        "    while view: view = view[os.write(1, view):]\n"
        "os.write(1, b'\\nend\\n'); time.sleep(300)\n"
    )
    hold.services(web=python(code))
    hold.up(expect=None)
    wait_for(lambda: hold.service("web")["log_bytes"] == 4 + 480 * 65536 + 5, 30)
    assert peak_kib_of(hold.command("logs", "web"), hold) < 50_000
    assert hold.cli("logs", "web", "--tail", 1, "--no-prefix").stdout == "end\n"


def test_old_output_goes_on_request_while_it_runs(hold: Hold) -> None:
    """Old logs can only be had away by stopping the service or by deleting files under it: the
    output of ended runs goes, that of the live one stays, all of it."""
    code = (
        "import os, time, sys\n"
        "for n in range(2000): os.write(1, b'%d %090d\\n' % (os.getpid(), n))\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    hold.services(web={"command": python(code), "log": {"max_size": "32KiB"}})
    hold.up()
    hold.cli("wait", "web", "--for", "log:ready", "--timeout", "20s")
    hold.cli("restart", "web")
    pid = hold.service("web")["pid"]
    wait_for(lambda: hold.raw("web").count(b"ready\n") == 2, what="all that the second run prints")
    live = hold.raw("web", "--run", 2)
    size = len(hold.raw("web"))
    answer = hold.json("prune")
    assert answer["deleted_bytes"] > 100_000
    left = hold.raw("web")
    assert left.endswith(live)
    assert live.count(b"%d " % pid) == 2000
    assert len(left) < size - 100_000
    assert hold.json("prune")["deleted_bytes"] == 0
    assert hold.service("web")["pid"] == pid
    assert hold.raw("web", "--run", 2) == live
    hold.cli("stop", "web")
    assert hold.json("prune", "--older-than", "1h")["deleted_bytes"] == 0
    assert hold.json("prune")["deleted_bytes"] > len(left) - 1
    assert hold.cli("logs", "web").stdout == ""


def test_what_the_limit_took_is_said(hold: Hold) -> None:
    """Lines are dropped by a limit, and nothing in the log says so."""
    go = hold.folder / "go"
    code = (
        "import os, time\n"
        "os.write(1, b'first\\n')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "for n in range(3000): os.write(1, b'%099d\\n' % n)\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    hold.services(
        web={"command": python(code), "log": {"max_size": "32KiB", "total_size": "96KiB"}}
    )
    hold.up()
    wait_for(lambda: hold.raw("web") == b"first\n")
    cursor = hold.ask("logs", service="web", since=0.0)["cursor"]
    go.touch()
    hold.cli("wait", "web", "--for", "log:ready", "--timeout", "20s")
    answer = hold.ask("logs", service="web", cursor=cursor, limit=5)
    notes = [line["note"] for line in answer["lines"] if line.get("note")]
    assert any("removed" in note for note in notes), answer["lines"][:2]
    for options in ([], ["--run", "1"], ["--since", "1h"]):
        told = hold.cli("logs", "web", "--json", *options).stdout.splitlines()
        note, *lines = map(json.loads, told)
        assert "bytes removed by the size limit" in note["note"]
        shown = hold.cli("logs", "web", *options)
        assert "bytes removed by the size limit" in shown.stderr
        assert [line["text"] for line in lines[:3]] == shown.stdout.splitlines()[:3]
    assert "removed" not in hold.cli("logs", "web", "--tail", "5").stderr


def test_lines_of_many_services_are_never_mixed(hold: Hold) -> None:
    """Two services print at once, and halves of their lines are glued together."""
    code = (
        "import os, sys\n"
        "mark = sys.argv[1].encode()\n"
        "for n in range(400):\n"
        "    os.write(1, mark * 50); os.write(2, mark * 30 + b'\\n')\n"
        "    os.write(1, mark * 50 + b'\\n')\n"
    )
    hold.services(**{
        name: {"command": [*python(code), name], "restart_policy": "never"} for name in "abc"
    })  # fmt: skip
    hold.up(expect=None)
    for name in "abc":
        hold.wait_status(name, "exited")
    for line in hold.cli("logs").stdout.splitlines():
        name = line.split()[0].rstrip("|:")
        text = line.split()[-1]
        assert text in (name * 100, name * 30), line[:200]
