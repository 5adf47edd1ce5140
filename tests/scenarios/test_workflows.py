"""Workflows, single commands and recovery, with real processes."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import psutil
import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import Refused, UsageError
from tests.harness import PYTHON, Hold, is_alive, kill_9, read_until, started, wait_for
from tests.scenarios.test_custom_restart import SLEEP, SLOW, config, ended, events, script, web_up


def outcomes(result: dict[str, Any]) -> list[str]:
    return [step["outcome"] for step in result["steps"]]


def test_exec_is_the_command_for_its_caller(hold: Hold) -> None:
    """Both streams, the exit code, the folder and the environment are the caller's."""
    web_up(hold)
    code = "import os,sys; print(os.getcwd(), os.environ['MINE']); print('err', file=sys.stderr)"
    there = hold.project / "there"
    there.mkdir()
    run = ("exec", "--", PYTHON, "-I", "-S", "-c", code + "; sys.exit(7)")
    done = hold.cli(*run, expect=7, cwd=there, environ={"MINE": "yes"})
    assert done.stdout.split() == [str(there.resolve()), "yes"]
    assert done.stderr == "err\n"
    killed = "import os; os.kill(os.getpid(), 9)"
    hold.cli("exec", "--", PYTHON, "-I", "-S", "-c", killed, expect=128 + 9)
    missing = hold.cli("exec", "--", "no-such-program", expect=1)
    assert "No such file" in missing.stderr
    result = json.loads(
        hold.cli("--json", "exec", "--type", "BINARY", "--", "echo", "a b", "$HOME").stdout
    )
    assert result["steps"][0]["out"] == "a b $HOME\n"
    assert [event["data"]["outcome"] for event in events(hold, "command:finished")] == [
        "failed", "failed", "failed", "done",
    ]  # fmt: skip


def test_exec_passes_bytes_on(hold: Hold) -> None:
    """What is no text arrives as it was printed."""
    web_up(hold)
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)))"
    argv = hold.command("exec", "--", PYTHON, "-I", "-S", "-c", code)
    with started(argv, cwd=hold.project, env=hold.environ) as process:
        assert process.communicate(timeout=60)[0] == bytes(range(256))
    raw = hold.ask("execute_command", custom_command={"command": "printf '\\303\\244'"})
    assert raw["steps"][0]["out"] == "ä"


def test_exec_over_its_time_and_left_alone(hold: Hold) -> None:
    """A timeout has its own exit code; Ctrl-C and hanging up end the command, too."""
    web_up(hold)
    slow = script(hold, "slow", SLOW)
    pids = hold.project / "pids"

    def is_gone() -> bool:
        return not any(is_alive(int(word)) for word in pids.read_text().split())

    done = hold.cli("exec", "--timeout", "0.5s", "--", slow, expect=6)
    assert "took longer than 500ms" in done.stderr
    assert is_gone()
    with started(hold.command("exec", "--", slow), cwd=hold.project, env=hold.environ) as waiting:
        read_until(waiting, b"begun")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
    wait_for(is_gone)
    connection = Connection(str(hold.runtime / "line.sock"))
    frames = connection.stream("execute_command", custom_command={"command": slow}, follow=True)
    assert next(item for item in frames if item["kind"] == "output")["text"] == "begun\n"
    connection.close()
    wait_for(is_gone)
    wait_for(lambda: hold.ask("workflows")["under_way"] == [])


def test_exec_with_the_eyes_of_a_service(hold: Hold) -> None:
    """--service: in its folder, with its variables, and told in its events."""
    (hold.project / "app").mkdir()
    config(hold, {"web": {"command": SLEEP, "working_dir": "app", "env": {"LEVEL": "7"}}})
    hold.up()
    code = "import os; print(os.path.basename(os.getcwd()), os.environ['LEVEL'])"
    done = hold.cli("exec", "--service", "web", "--", PYTHON, "-I", "-S", "-c", code)
    assert done.stdout == "app 7\n"
    assert {event["service"] for event in events(hold, "command:finished")} == {"web"}


def test_an_interrupted_command_is_told(hold: Hold) -> None:
    """kill -9 of the supervisor: the command is dead, and its end is announced as interrupted."""
    web_up(hold)
    slow = script(hold, "slow", SLOW)
    with started(
        hold.command("exec", "--", slow), cwd=hold.project, env=hold.environ, stderr=-2
    ) as waiting:
        read_until(waiting, b"begun")
        kill_9(hold.supervisor_pid)
        read_until(waiting, b"interrupted")
    (finished,) = wait_for(lambda: events(hold, "command:finished"))
    assert finished["data"]["outcome"] == "interrupted"
    pids = [int(word) for word in (hold.project / "pids").read_text().split()]
    wait_for(lambda: not any(map(is_alive, pids)))


def test_a_command_that_ended_while_nobody_looked_is_told_with_its_code(hold: Hold) -> None:
    """A migration that was through when the supervisor died is not told as broken off."""
    web_up(hold)
    gate = script(hold, "gate", "#!/bin/sh\necho $$ > pid\necho begun\nread go < go\nexit 5\n")
    os.mkfifo(hold.project / "go")
    with started(
        hold.command("exec", "--", gate), cwd=hold.project, env=hold.environ, stderr=-2
    ) as waiting:
        read_until(waiting, b"begun")
        supervisor = hold.supervisor_pid
        os.kill(supervisor, signal.SIGSTOP)
        (hold.project / "go").write_text("on\n")
        wait_for(lambda: not is_alive(int((hold.project / "pid").read_text())))
        kill_9(supervisor)
        told = read_until(waiting, b"exit code 5")
        assert b"interrupted" in told
    (finished,) = events(hold, "command:finished")
    assert finished["data"]["exit_code"] == 5


def test_every_beginning_has_an_end(hold: Hold) -> None:
    """Whenever the supervisor is killed, each command that was begun is told to be over."""
    web_up(hold)
    for round_number in range(4):
        connection = Connection(str(hold.runtime / "line.sock"))
        for number in range(12):
            seconds = f"0.0{number}" if number % 2 else "0"
            connection.send("execute_command", custom_command={"command": f"sleep {seconds}"})
        for _ in range(round_number * 3):
            connection.receive(5)
        kill_9(hold.supervisor_pid)
        connection.close()
        wait_for(lambda: hold.ask("workflows")["under_way"] == [])

    def ids(kind: str) -> set[str]:
        return {event["data"]["id"] for event in events(hold, kind)}

    assert ids("command:started")
    wait_for(lambda: ids("command:started") <= ids("command:finished"))


def test_an_upgrade_waits_for_what_is_under_way(hold: Hold) -> None:
    """It would kill the command; so it is refused, and says what to wait for."""
    slow = script(hold, "slow", SLOW)
    web_up(hold, workflows={"slow": [slow]})
    connection = Connection(str(hold.runtime / "line.sock"))
    connection.send("run_workflow", name="slow")
    (under_way,) = wait_for(lambda: hold.ask("workflows")["under_way"])
    refusal = hold.cli("upgrade", expect=5)
    assert "workflow slow is under way" in refusal.stderr
    hold.ask("cancel_workflow", workflow=under_way["id"])
    connection.close()
    hold.cli("upgrade")


def test_many_restarts_at_once_make_one_process(hold: Hold) -> None:
    """Restarts of every kind, all together: never two instances, and one at the end."""
    config(hold, {"web": {"command": ["sleep", "777"]}}, workflows={"again": [{"restart": "web"}]})
    hold.up()
    connection = Connection(str(hold.runtime / "line.sock"))
    for _ in range(5):
        connection.send("restart", services=["web"])
        connection.send("custom_restart", service="web")
        connection.send("run_workflow", name="again")
    answers = [connection.receive(20) for _ in range(15)]
    assert all(answers)
    connection.close()
    assert hold.wait_status("web", "running")["pid"]
    assert len(hold.json("ps", "web")["services"]["web"]) == 1
    sleeps = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", "777"] and process.pid in hold.marked_pids()
    ]
    assert sleeps == [hold.service("web")["pid"]]


DEPLOY = {
    "description": "Build and go",
    "steps": [
        "echo built",
        {"command": "hello"},
        {"stop": "web"},
        {"start": ["web"]},
        {"wait": {"service": "web", "timeout": "10s"}},
        {"restart": "web", "description": "once more"},
    ],
}


def test_a_workflow_is_done_step_by_step(hold: Hold) -> None:
    """Each step is told with what it printed, and the events tell the same."""
    pid = web_up(hold, commands={"hello": "echo hello"}, workflows={"deploy": DEPLOY})
    listed = hold.cli("workflow", "ls").stdout
    assert "deploy: Build and go" in listed
    assert "3. stop web" in listed
    told = hold.cli("workflow", "run", "deploy").stdout
    for words in ("[1/6] echo built\nbuilt\n", "[2/6] echo hello\nhello\n", "[6/6] once more"):
        assert words in told
    assert "workflow deploy: done" in told
    assert hold.service("web")["pid"] not in (pid, None)
    steps = [event["data"] for event in events(hold, "workflow:step")]
    assert [step["step"] for step in steps if step["outcome"] == "done"] == [1, 2, 3, 4, 5, 6]
    assert not any("built\n" in str(step) for step in steps)
    with pytest.raises(UsageError, match='did you mean "deploy"'):
        hold.ask("run_workflow", name="depoy")


def test_a_failing_step(hold: Hold) -> None:
    """It ends the workflow, unless the workflow goes on; the result says what was not done."""
    steps = ["echo one", "false", {"restart": "web"}]
    patient = {"steps": steps, "on_failure": "continue"}
    hasty = {"steps": ["sleep 30", "echo never"], "timeout": "500ms"}
    waiting = {"steps": [{"wait": {"service": "web", "for": "exited", "timeout": "200ms"}}]}
    pid = web_up(
        hold, workflows={"stop": steps, "go-on": patient, "hasty": hasty, "waiting": waiting}
    )
    stopped = ended(hold, "run_workflow", name="stop")
    assert outcomes(stopped) == ["done", "failed", "skipped"]
    assert (stopped["outcome"], stopped["reason"]) == ("failed", "false: exit code 1")
    assert hold.service("web")["pid"] == pid
    went_on = ended(hold, "run_workflow", name="go-on")
    assert outcomes(went_on) == ["done", "failed", "done"]
    assert went_on["outcome"] == "failed"
    assert hold.service("web")["pid"] != pid
    late = ended(hold, "run_workflow", name="hasty")
    assert outcomes(late) == ["timeout", "skipped"]
    assert outcomes(ended(hold, "run_workflow", name="waiting")) == ["failed"]
    assert "not done: restart web" in hold.cli("workflow", "stop", expect=1).stdout


def test_steps_take_what_verbs_take(hold: Hold) -> None:
    """A service with instances is restarted by its name, all at once or one after the other."""
    pair = {"command": SLEEP, "instances": 2, "tags": ["x"]}
    steps = [{"restart": "web"}, {"rolling_restart": "web"}, {"stop": "tag:x"}]
    config(hold, {"web": pair}, workflows={"roll": steps})
    hold.up()
    assert outcomes(hold.ask("run_workflow", name="roll")) == ["done", "done", "done"]
    services = hold.status()["services"]
    assert {name: (one["run"], one["status"]) for name, one in services.items()} == {
        "web@1": (3, "stopped"),
        "web@2": (3, "stopped"),
    }


def test_a_workflow_is_not_done_twice_at_once(hold: Hold) -> None:
    """A second request is refused while the first is under way."""
    slow = script(hold, "slow", SLOW)
    web_up(hold, workflows={"slow": [slow]})
    connection = Connection(str(hold.runtime / "line.sock"))
    connection.send("run_workflow", name="slow")
    (under_way,) = wait_for(lambda: hold.ask("workflows")["under_way"])
    with pytest.raises(Refused, match="under way already"):
        hold.ask("run_workflow", name="slow")
    hold.ask("cancel_workflow", workflow=under_way["id"])
    connection.close()


def test_workflows_are_a_part_of_what_a_supervisor_inherits(hold: Hold) -> None:
    """After kill -9 the settings, named commands and workflows are there as before."""
    web_up(hold, commands={"hello": "echo hello"}, workflows={"greet": [{"command": "hello"}]})
    kill_9(hold.supervisor_pid)
    result = wait_for(lambda: hold.ask("run_workflow", name="greet"))
    assert result["steps"][0]["out"] == "hello\n"


def test_a_supervised_process_runs_nothing(hold: Hold) -> None:
    """What Holdfast itself supervises may look, not have commands run."""
    config(hold, {"web": {"command": SLEEP}}, commands={"hello": "echo hello"})
    hold.up()
    argv = hold.command("exec", "hello")
    run = hold.cli("run", "--wait", "--name", "inner", "--", *argv, expect=5)
    assert "may look, not change" in run.stderr
    assert events(hold, "command:started") == []


def test_no_more_than_enough_at_once(hold: Hold) -> None:
    """A flood of commands is refused, and what runs is not disturbed."""
    web_up(hold)
    connection = Connection(str(hold.runtime / "line.sock"))
    for _ in range(80):
        connection.send("execute_command", custom_command={"command": "sleep 300"}, follow=True)
    frames = (connection.receive(10) for _ in range(1000))
    refusal = next(frame for frame in frames if frame is not None and frame.get("ok") is False)
    assert "are under way" in refusal["error"]["message"]
    assert len(hold.ask("workflows")["under_way"]) <= 64
    assert hold.service("web")["status"] == "running"
    connection.close()
    wait_for(lambda: hold.ask("workflows")["under_way"] == [])


TELL = """#!/bin/sh
echo "$HOLDFAST_SERVICE|$HOLDFAST_CAUSE|$HOLDFAST_REASON|$LEVEL" >> told
sleep "${1:-0}"
"""


def test_a_crash_runs_the_command_that_recovery_names(hold: Hold) -> None:
    """It knows service, cause and reason; the restart goes on; its end is an event."""
    script(hold, "tell", TELL)
    service = {
        "command": SLEEP,
        "env": {"LEVEL": "7"},
        "restart": {"delay": 0},
        "recovery": {"crash": {"command": "tell"}},
    }
    config(hold, {"web": service}, commands={"tell": "./tell"})
    hold.up()
    pid = hold.wait_status("web", "running")["pid"]
    kill_9(pid)
    told = hold.project / "told"
    wait_for(lambda: told.exists() and told.read_text())
    assert told.read_text() == "web|crash|killed by SIGKILL|7\n"
    wait_for(lambda: (s := hold.service("web"))["status"] == "running" and s["pid"] != pid)
    (finished,) = wait_for(lambda: events(hold, "command:finished"))
    assert (finished["service"], finished["data"]["cause"]) == ("web", "crash")
    assert (finished["data"]["outcome"], finished["data"]["exit_code"]) == ("done", 0)


def test_recovery_commands_of_a_service_never_pile_up(hold: Hold) -> None:
    """While one runs, another is skipped, and that is told."""
    tell = script(hold, "tell", TELL)
    service = {
        "command": ["false"],
        "start_seconds": 0,
        "restart": {"delay": 0, "max_restarts": 2},
        "recovery": {"crash": {"command": [tell, "60"]}, "suppressed": {"command": [tell, "60"]}},
    }
    config(hold, {"web": service})
    hold.up(expect=None)
    hold.wait_status("web", "failed")
    skipped = wait_for(lambda: events(hold, "command:finished"))
    assert {event["data"]["outcome"] for event in skipped} == {"skipped"}
    assert "under way already" in skipped[0]["data"]["reason"]
    assert len(hold.ask("workflows")["under_way"]) == 1
    assert events(hold, "service:recovery")[-1]["data"]["cause"] == "suppressed"


def test_a_start_failure_can_end_it(hold: Hold) -> None:
    """`start_failure: stop` tries no second time."""
    service = {"command": ["false"], "start_seconds": 5, "recovery": {"start_failure": "stop"}}
    config(hold, {"web": service})
    hold.up(expect=None)
    status = hold.wait_status("web", "failed")
    assert "recovery of start_failure: stop" in status["reason"]
    assert status["run"] == 1


@pytest.mark.parametrize(
    ("action", "ending"),
    [({"signal": "HUP"}, "hup"), ("stop", "stopped"), ("notify", "running"), ("restart", "again")],
)
def test_an_unhealthy_service(hold: Hold, action: Any, ending: str) -> None:
    """What its `recovery:` says about a failed liveness probe is done, and told."""
    code = (
        "import signal, time\n"
        "signal.signal(signal.SIGHUP, lambda *_: print('hup', flush=True))\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(60)"
    )
    service = {
        "command": [PYTHON, "-I", "-S", "-c", code],
        "restart": {"delay": 0},
        "liveness": {"exec": ["test", "!", "-e", "sick"], "interval": "100ms", "retries": 1},
        "recovery": {"unhealthy": action},
    }
    config(hold, {"web": service})
    hold.up()
    pid = hold.wait_status("web", "running")["pid"]
    wait_for(lambda: b"up" in hold.raw("web"))
    (hold.project / "sick").touch()
    match ending:
        case "hup":
            wait_for(lambda: b"hup" in hold.raw("web"))
        case "stopped":
            hold.wait_status("web", "stopped")
        case "running":
            wait_for(lambda: events(hold, "service:recovery"))
        case _:
            wait_for(lambda: hold.service("web")["pid"] not in (pid, None))
            return
    recovery = events(hold, "service:recovery")[0]["data"]
    assert recovery["cause"] == "unhealthy"
    if ending != "stopped":
        assert hold.service("web")["pid"] == pid


def test_what_is_under_way_can_be_followed_by_others(hold: Hold) -> None:
    """From its first output on, also when it is over; Ctrl-C of a follower cancels nothing."""
    gate = hold.project / "gate"
    os.mkfifo(gate)
    script(hold, "slow", "#!/bin/sh\necho begun\nread line < gate\necho $line\n")
    config(hold, {"web": {"command": SLEEP}}, workflows={"long": {"steps": ["./slow"]}})
    hold.up()
    asking = Connection(str(hold.runtime / "line.sock"))
    asking.send("run_workflow", name="long")
    (work,) = wait_for(lambda: hold.ask("workflows")["under_way"])
    argv = hold.command("workflow", "--watch", work["id"])
    with started(argv, cwd=hold.project, env=hold.environ) as leaving:
        read_until(leaving, b"begun")
        leaving.send_signal(signal.SIGINT)
        leaving.wait(30)
    with started(argv, cwd=hold.project, env=hold.environ) as following:
        read_until(following, b"begun")
        gate.write_text("let through\n")
        assert b"let through" in read_until(following, b"workflow long: done")
    assert "let through" in hold.cli("workflow", "--watch", work["id"]).stdout
    assert hold.ask("follow_workflow", workflow=work["id"])["outcome"] == "done"
    assert "is under way" in hold.cli("workflow", "--watch", "workflow-0", expect=3).stderr
    asking.close()
