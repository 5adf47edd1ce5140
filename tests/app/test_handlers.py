"""Commands over the line of a real Holdfast: what each answers, and what it must not do."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import Failed, HoldfastError, NotFound, UnknownService, UsageError
from tests.harness import PYTHON, Hold, is_alive, wait_for

SAYING = ["sh", "-c", "echo hello; echo world >&2; exec sleep 1000"]
SECRET = "hunter2-never-on-disk"


def connect(hold: Hold) -> Connection:
    return Connection(str(hold.runtime / "line.sock"))


def test_a_watch_begins_with_where_each_log_is(hold: Hold) -> None:
    """One item a service when the watch is in force; then one when it prints more."""
    flag = hold.folder / "more"
    code = f"until [ -e {flag} ]; do sleep 0.02; done; echo more; exec sleep 1000"
    hold.services(web=["sh", "-c", f"echo hello; {code}"], db=["sleep", "1000"])
    hold.up()
    wait_for(lambda: hold.raw("web") == b"hello\n")
    connection = connect(hold)
    items = connection.stream("watch")
    first = {item["service"]: item["position"] for item in (next(items), next(items))}
    assert first == {"web": 6, "db": 0}
    flag.touch()
    more = next(items)
    assert (more["service"], more["position"]) == ("web", 11)
    connection.close()


def test_a_watch_tells_of_the_own_log_to_who_asks(hold: Hold) -> None:
    """First when it is in force, then when it grew; that, and nothing of what it says."""
    hold.services(web=["sleep", "1000"])
    hold.up()
    connection = connect(hold)
    items = connection.stream("watch", own_log=True)
    first = [next(items), next(items)]
    assert {"own_log": True, "hides": first[0]["hides"]} in first
    hold.ask("restart", services=["web"])
    wait_for(lambda: next(items).get("own_log"), what="its next lines")
    connection.close()


def test_a_catastrophic_expression_holds_up_nobody(hold: Hold) -> None:
    """It is refused after a while; meanwhile everybody else is answered at once."""
    hold.services(web=["sh", "-c", f"echo b{'a' * 60}; exec sleep 1000"])
    hold.up()
    wait_for(lambda: hold.raw("web"))
    connection, other = connect(hold), connect(hold)
    grep = connection.send("logs", service="web", grep="(a+)+b")
    wait = connection.send("wait", service="web", condition="log:(a+)+b", timeout=30)
    answered = 0
    while not select.select([connection], [], [], 0)[0]:
        other.ask("status")
        answered += 1
    assert answered > 5
    for request in (grep, wait):
        with pytest.raises(UsageError, match="takes too long"):
            connection.answer(request, 20)
    busy = _processes_of(hold)
    wait_for(lambda: not any(_is_matcher(pid) for pid in busy), what="its process to end")
    kinds = {event["kind"] for event in hold.ask("events", limit=1000)["events"]}
    assert "exit" not in kinds
    connection.close()
    other.close()


def _processes_of(hold: Hold) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_matcher(pid)]


def _is_matcher(pid: str) -> bool:
    try:
        return b"(a+)+b" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_logs_are_read_page_by_page(hold: Hold) -> None:
    """Pages of any size, with and without an expression, end where the next begins."""
    code = "import sys\nfor n in range(20000): print('line', n)\nprint('open', end='')"
    hold.services(job={"command": [PYTHON, "-c", code], "restart_policy": "never"})
    hold.up(expect=None)
    hold.wait_status("job", "exited")
    for grep, expected in ((None, 20001), ("7$", 2000)):
        found: list[str] = []
        page: dict[str, Any] = {"cursor": "P0", "lines": [{"partial": False}]}
        while page["lines"] and not page["lines"][-1]["partial"]:
            page = hold.ask("logs", service="job", cursor=page["cursor"], limit=999, grep=grep)
            found += [line["text"] for line in page["lines"] if not line["note"]]
            assert len(found) <= expected
        assert len(found) == len(set(found)) == expected


def test_an_answer_is_bounded_however_long_the_lines_are(hold: Hold) -> None:
    """Twenty megabytes without a line end come page by page, and none is lost."""
    size = 20_000_000
    hold.services(web=["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x; exec sleep 1000"])
    hold.up()
    wait_for(lambda: hold.ask("runs", service="web")["runs"][0]["log_bytes"] == size)
    found = 0
    fields: dict[str, Any] = {"tail": 5}
    while True:
        page = hold.ask("logs", service="web", **fields)
        told = sum(len(line["text"]) for line in page["lines"])
        assert told <= 9 * 1024 * 1024
        found += told
        if not page["more"]:
            break
        fields = {"cursor": page["cursor"]}
    assert found == size
    newest = hold.ask("logs", service="web", grep="x", tail=10_000)["lines"]
    assert 7 << 20 < sum(len(line["text"]) for line in newest) <= 8 << 20


@pytest.mark.parametrize("expression", ["(", "x" * 2000])
def test_what_is_no_expression_is_told(hold: Hold, expression: str) -> None:
    """Before anything is read or started, and the watch it would need is not left behind."""
    hold.services(web=SAYING)
    hold.up()
    with pytest.raises(UsageError):
        hold.ask("logs", service="web", grep=expression)
    with pytest.raises(UsageError):
        hold.ask("wait", service="web", condition=f"log:{expression}")


def test_a_bad_configuration_touches_nothing(hold: Hold) -> None:
    """Every problem is told with its line, and what ran goes on as it was declared."""
    hold.services(web=SAYING)
    hold.up()
    before = hold.service("web")
    bad = "services:\n  web:\n    comand: a\n    stop: {grace: soon}\n  Upper:\n    command: a\n"
    (hold.project / "holdfast.json").unlink()
    (hold.project / "holdfast.yaml").write_text(bad)
    told = hold.cli("up", "-d", expect=7).stderr
    for place in ("holdfast.yaml:3", "holdfast.yaml:4", "holdfast.yaml:5"):
        assert place in told
    after = hold.service("web")
    assert (after["pid"], after["run_id"]) == (before["pid"], before["run_id"])
    assert set(hold.status()["services"]) == {"web"}


def test_a_removed_service_runs_on_until_it_is_forgotten(hold: Hold) -> None:
    """`up` without it stops nothing; it is told, and `rm` ends it."""
    hold.services(web=SAYING, old=["sleep", "1000"])
    hold.up()
    hold.services(web=SAYING)
    result = hold.json("up", "-d")
    assert result["removed"] == ["old"]
    assert hold.service("old")["pid"] is not None
    assert hold.json("rm", "old")["services"]["old"]["outcome"] == "removed"
    assert set(hold.status()["services"]) == {"web"}


def test_unknown_names_start_nothing(hold: Hold) -> None:
    """`up` of a name that is not declared is exit 3, and what it would have started is not up."""
    hold.services(web=SAYING)
    told = hold.cli("up", "-d", "wbe", expect=3).stderr
    assert 'did you mean "web"? known: web' in told
    hold.cli("status", expect=4)


def test_up_of_one_brings_what_it_needs(hold: Hold) -> None:
    """Dependencies are started with it, and nothing else is."""
    hold.services(
        web={"command": SAYING, "depends_on": ["db"]}, db=["sleep", "1000"], other=["sleep", "1"]
    )
    hold.up("web")
    states = {name: service["status"] for name, service in hold.status()["services"].items()}
    assert states == {"web": "running", "db": "running", "other": "pending"}


def test_a_secret_is_nowhere_but_in_its_process(hold: Hold) -> None:
    """Not in the history, the log, events or status; and still there after a relaunch."""
    hold.environ["TOKEN_OF_CALLER"] = SECRET
    code = 'test -n "$MORE" && echo more; echo $${#TOKEN_OF_CALLER}; exec sleep 1000'
    hold.services(web={"command": ["sh", "-c", code], "env": {"OWN": SECRET + "-2"}})
    hold.up("--log-level", "trace")
    hold.cli("restart", "web", "--env", f"MORE={SECRET}-3")
    wait_for(lambda: hold.raw("web", "--run", 2).startswith(b"more"))
    old = hold.supervisor_pid
    os.kill(old, 9)
    wait_for(lambda: hold.supervisor_pid != old)
    assert hold.service("web")["overrides"] == {"env_vars": ["MORE"]}
    hold.cli("restart", "web")
    wait_for(lambda: hold.raw("web", "--run", 3) == b"%d\n" % len(SECRET))
    told = hold.cli("status", "--json").stdout + hold.cli("events", "-n", "1000", "--json").stdout
    assert SECRET not in told
    for path in hold.state.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_two_projects_do_not_meet(hold: Hold) -> None:
    """Each folder has its own Holdfast; ending one leaves the other."""
    hold.services(web=SAYING)
    hold.up()
    with Hold() as second:
        second.services(web=SAYING)
        second.up()
        assert second.keeper_pid != hold.keeper_pid
        second.cli("down")
    assert hold.service("web")["status"] == "running"


def test_small_refusals(hold: Hold) -> None:
    """Requests that cannot be meant are refused with what is known."""
    hold.services(web=SAYING, db=["sleep", "1000"], idle=["true"])
    hold.up("web", "db")
    refusals: list[tuple[str, dict[str, Any], type[HoldfastError], str]] = [
        ("restart", {}, UsageError, "needs the name"),
        ("pause", {"services": []}, UsageError, "at least one"),
        ("stop", {"services": ["web"], "grace": -1}, UsageError, "no grace"),
        ("signal", {"services": ["web"], "signal": "NOPE"}, UsageError, "no signal"),
        ("signal", {"services": ["web"], "signal": "HUP", "to": "all"}, UsageError, "none of main"),
        ("wait", {"service": "web", "condition": "happy"}, UsageError, "no condition"),
        ("runs", {"service": "wbe"}, UnknownService, "did you mean"),
        ("logs", {"service": "web", "cursor": "!"}, UsageError, "not a cursor"),
        ("logs", {"service": "web", "run": 99}, NotFound, "no run 99"),
        ("logs", {"service": "web", "run": 0}, NotFound, "no run 0"),
        ("logs", {"service": "idle", "run": 1}, NotFound, "no run 1"),
        ("run", {"argv": [], "working_dir": "/"}, UsageError, "no command"),
        ("run", {"argv": ["x"], "service": "A/B", "working_dir": "/"}, UsageError, "cannot be"),
        ("adopt", {"service": "web", "pid": hold.service("db")["pid"]}, Failed, "runs already"),
        ("watch", {"services": ["wbe"]}, UnknownService, "did you mean"),
    ]
    for command, fields, kind, words in refusals:
        with pytest.raises(kind, match=words):
            hold.ask(command, **fields)


def test_the_log_of_one_run(hold: Hold) -> None:
    """By its number, or counted from the end; a cursor reads on in it and not beyond."""
    hold.services(web=["sh", "-c", "seq 1 5; exec sleep 1000"])
    for count in (1, 2):
        hold.up()
        wait_for(lambda count=count: hold.raw("web").count(b"5\n") == count)
        hold.ask("stop", services=["web"])

    def told(**fields: Any) -> tuple[list[tuple[int, str]], str]:
        result = hold.ask("logs", service="web", max_bytes=4000, **fields)
        lines = [line for line in result["lines"] if not line.get("note")]
        return [(line["run"], line["text"]) for line in lines], result["cursor"]

    begun, cursor = told(run=1, limit=3)
    assert begun == [(1, "1"), (1, "2"), (1, "3")]
    assert told(run=1, cursor=cursor)[0] == [(1, "4"), (1, "5")]
    assert told(run=-2)[0] == told(run=1)[0]
    assert told(run=-1)[0] == told(run=2)[0] == [(2, str(n)) for n in range(1, 6)]


def test_runs_and_events_tell_the_past(hold: Hold) -> None:
    """Every run with how it ended, newest first; events from any number on."""
    hold.services(web=SAYING)
    hold.up()
    hold.ask("restart", services=["web"])
    first, second = reversed(hold.ask("runs", service="web")["runs"])
    assert (first["number"], first["signal"]) == (1, "SIGTERM")
    assert first["rusage"]["max_rss"] > 0
    assert (second["number"], second["ended_at"]) == (2, None)
    everything = hold.ask("events", since=0, limit=1000)
    numbers = [event["seq"] for event in everything["events"]]
    assert numbers == sorted(numbers)
    middle = numbers[len(numbers) // 2]
    assert [e["seq"] for e in hold.ask("events", since=middle)["events"]] == [
        number for number in numbers if number > middle
    ]
    deleted = hold.ask("prune")
    assert deleted["deleted_runs"] == 1
    assert [run["number"] for run in hold.ask("runs", service="web")["runs"]] == [2]


def test_a_holdfast_inside_a_service_has_its_own_place(hold: Hold) -> None:
    """Also when ours was told where to keep its state; it ends with the outer service."""
    inner = hold.folder / "inner"
    inner.mkdir()
    (inner / "holdfast.json").write_text('{"services": {"deep": {"command": "sleep 1000"}}}')
    hold.environ["HOLDFAST_STATE_DIR"] = str(hold.folder / "elsewhere")
    hold.services(web={"command": hold.command("up"), "working_dir": str(inner)})
    hold.cli("up", "-d")
    try:
        outer = hold.json("status")["services"]
        assert list(outer) == ["web"]
        plain = {"HOLDFAST_STATE_DIR": ""}
        deep = wait_for(
            lambda: _services(hold, inner, plain).get("deep", {}).get("pid"), what="the inner one"
        )
        hold.cli("stop", "web")
        wait_for(lambda: not is_alive(deep), what="the tree to end with the outer stop")
    finally:
        hold.cli("down", "--now")


def _services(hold: Hold, folder: Path, environ: dict[str, str]) -> dict[str, Any]:
    done = hold.cli("status", "--json", cwd=folder, environ=environ, expect=None)
    found: dict[str, Any] = json.loads(done.stdout).get("services", {})
    return found


def test_limits_and_mask_reach_the_process(hold: Hold) -> None:
    """rlimits, umask and the working folder are those that were declared."""
    command = ["sh", "-c", "ulimit -n; umask; pwd; exec sleep 1000"]
    declared = {"rlimits": {"nofile": 77}, "umask": "027", "working_dir": "/tmp"}
    hold.services(web={"command": command, **declared})
    hold.up()
    wait_for(lambda: hold.raw("web").splitlines() == [b"77", b"0027", b"/tmp"])


def test_counters_are_kept_over_a_killed_supervisor(hold: Hold) -> None:
    """Restarts are counted on, not anew."""
    hold.services(
        web={
            "command": ["sh", "-c", "sleep 0.2; exit 1"],
            "start_seconds": 0.05,
            "restart": {"delay": "50ms", "jitter": 0},
        }
    )
    hold.up()
    before = wait_for(lambda: hold.service("web")["restart_count"])
    old = hold.supervisor_pid
    os.kill(old, 9)
    wait_for(lambda: hold.supervisor_pid != old)
    after = hold.service("web")["restart_count"]
    assert before <= after <= before + 3
