"""Custom restarts: commands before and after, with real processes."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import CommandFailed, HoldfastError, Refused
from tests.harness import PYTHON, Hold, is_alive, kill_9, read_until, started, wait_for

SLEEP = ["sleep", "300"]
SLOW = """#!/bin/sh
setsid sleep 300 &
echo $! $$ > pids
echo begun
exec sleep 300
"""


def script(hold: Hold, name: str, text: str) -> str:
    path = hold.project / name
    path.write_text(text)
    path.chmod(0o755)
    return f"./{name}"


def config(hold: Hold, services: dict[str, Any], **settings: Any) -> None:
    for spec in services.values():
        spec.setdefault("start_seconds", 0.05)
    hold.write({"services": services, **settings})


def web_up(hold: Hold, **settings: Any) -> int:
    """One service, running; its pid."""
    config(hold, {"web": {"command": SLEEP}}, **settings)
    hold.up()
    return int(hold.service("web")["pid"])


def python(code: str) -> dict[str, Any]:
    """A custom command that runs a piece of Python."""
    return {"command": PYTHON, "args": ["-I", "-S", "-c", code]}


def ended(hold: Hold, command: str, **fields: Any) -> dict[str, Any]:
    """How it went, step by step; a failure has it inside."""
    try:
        return hold.ask(command, **fields)
    except CommandFailed as error:
        return error.details


def asked(hold: Hold, **fields: Any) -> dict[str, Any]:
    return ended(hold, "custom_restart", service="web", **fields)


def refused(hold: Hold, command: str, **fields: Any) -> str:
    with pytest.raises(Refused) as caught:
        hold.ask(command, **fields)
    return caught.value.message


def events(hold: Hold, *kinds: str) -> list[dict[str, Any]]:
    return [one for one in hold.ask("events", limit=1000)["events"] if one["kind"] in kinds]


def test_a_failing_command_before_leaves_the_service_alone(hold: Hold) -> None:
    """Exit code and output of what failed are reported; nothing after it is done."""
    pid = web_up(hold)
    failing = python("import sys; print('why'); print('so', file=sys.stderr); sys.exit(3)")
    result = asked(hold, pre_commands=[failing], post_commands=[{"command": "echo done"}])
    pre, restart, post = result["steps"]
    assert result["outcome"] == "failed"
    assert (pre["outcome"], pre["exit_code"], pre["reason"]) == ("failed", 3, "exit code 3")
    assert (pre["out"], pre["err"]) == ("why\n", "so\n")
    assert (restart["outcome"], post["outcome"]) == ("skipped", "skipped")
    assert hold.service("web")["pid"] == pid == result["status"]["pid"]
    done = hold.cli("custom-restart", "--pre-command", "false", expect=1)
    assert "[1/2] failed: exit code 1" in done.stdout
    assert f"web is running and was not touched, pid {pid}" in done.stdout


def test_a_command_that_cannot_be_started_is_a_failure(hold: Hold) -> None:
    """A program that does not exist is said so, and the service is not touched."""
    pid = web_up(hold)
    result = asked(hold, pre_commands=[{"command": "no-such-program"}])
    assert "No such file" in result["steps"][0]["reason"]
    assert result["steps"][0]["exit_code"] is None
    assert hold.service("web")["pid"] == pid


def test_a_megabyte_of_output_works(hold: Hold) -> None:
    """All of it reaches who follows; the answer keeps the tail."""
    web_up(hold)
    loud = python("import sys; sys.stdout.write('x' * 1048576 + 'end')")
    result = asked(hold, pre_commands=[loud])
    assert result["outcome"] == "done"
    assert result["steps"][0]["out"].endswith("xend")
    assert len(result["steps"][0]["out"]) < 65536
    script(hold, "loud", f"#!{PYTHON} -IS\nprint('x' * 1048576)\n")
    done = hold.cli("custom-restart", "web", "--pre-command", "./loud")
    assert done.stdout.count("x") >= 1048576


def test_a_command_over_its_time_is_really_dead(hold: Hold) -> None:
    """Its whole tree, one that left the session included; status answers meanwhile."""
    pid = web_up(hold)
    slow = script(hold, "slow", SLOW)
    answer: dict[str, Any] = {}

    def restart() -> None:
        connection = Connection(str(hold.runtime / "line.sock"))
        command = {"command": slow, "timeout_seconds": 1.5}
        with pytest.raises(CommandFailed) as caught:
            connection.ask("custom_restart", service="web", pre_commands=[command])
        answer.update(caught.value.details)
        connection.close()

    hold.status()
    thread = threading.Thread(target=restart)
    thread.start()
    wait_for(lambda: (hold.project / "pids").exists() and (hold.project / "pids").read_text())
    pids = [int(word) for word in (hold.project / "pids").read_text().split()]
    assert hold.service("web")["pid"] == pid
    assert not answer, "the status was to be asked while the command runs"
    assert all(map(is_alive, pids))
    thread.join(60)
    assert answer["steps"][0]["outcome"] == "timeout"
    assert "all its processes were killed" in answer["steps"][0]["reason"]
    assert not any(map(is_alive, pids))
    assert hold.service("web")["pid"] == pid


def test_arguments_and_variables_hold_until_the_next_start_without_them(hold: Hold) -> None:
    """They reach the process, survive a crash, show in status, and end with a plain restart."""
    code = 'echo "<$MODE $*>"; exec sleep 300'
    command = ["sh", "-c", code, "sh"]
    config(hold, {"web": {"command": command, "args": ["a"], "restart": {"delay": 0}}})
    hold.up()
    hold.cli(
        "custom-restart", "--args", "--config 'b c.yaml'", "--env", "MODE=fast",
        "--post-command", "echo done",
    )  # fmt: skip
    status = hold.service("web")
    assert status["overrides"] == {"env_vars": ["MODE"], "args": ["--config", "b c.yaml"]}
    wait_for(lambda: b"<fast --config b c.yaml>" in hold.raw("web"))
    kill_9(status["pid"])
    wait_for(lambda: hold.raw("web").count(b"<fast --config b c.yaml>") == 2)
    hold.cli("restart", "web")
    wait_for(lambda: hold.raw("web").endswith(b"< a>\n"))
    assert hold.service("web")["overrides"] is None


def test_a_failing_command_afterwards_leaves_the_service_up(hold: Hold) -> None:
    """The restart has happened; what failed is reported, and what was not done."""
    pid = web_up(hold)
    after = [python("raise SystemExit(4)"), {"command": "echo never"}]
    result = asked(hold, post_commands=after)
    restart, failed, skipped = result["steps"]
    assert (result["outcome"], restart["outcome"]) == ("failed", "done")
    assert (failed["exit_code"], skipped["outcome"]) == (4, "skipped")
    assert result["status"]["status"] == "running"
    assert result["status"]["pid"] == hold.service("web")["pid"] != pid


def test_a_restart_that_fails_is_said_so(hold: Hold) -> None:
    """The service does not come up with the new arguments: no command afterwards is run."""
    web_up(hold)
    after = [{"command": "echo never"}]
    result = asked(hold, start_args=["no-number"], post_commands=after)
    restart, skipped = result["steps"]
    assert (restart["outcome"], skipped["outcome"]) == ("failed", "skipped")
    assert restart["reason"].startswith("web: ")
    hold.cli("restart", "web")
    assert hold.service("web")["status"] == "running"


def test_commands_run_where_the_service_runs(hold: Hold) -> None:
    """In its folder and with its environment; a relative folder starts from there."""
    folder = hold.project / "app"
    (folder / "deep").mkdir(parents=True)
    config(hold, {"web": {"command": SLEEP, "working_dir": "app", "env": {"LEVEL": "7"}}})
    hold.up(environ={"OF_UP": "yes"})
    code = "import os; print(os.getcwd(), os.environ['LEVEL'], os.environ['OF_UP'])"
    result = asked(hold, pre_commands=[python(code), {**python(code), "working_dir": "deep"}])
    there, deeper = (step["out"].split() for step in result["steps"][:2])
    assert there == [str(folder.resolve()), "7", "yes"]
    assert deeper[0] == str(folder.resolve() / "deep")


def test_without_a_name_the_only_or_the_default_service_is_meant(hold: Hold) -> None:
    """Else the error lists the names."""
    config(hold, {"web": {"command": SLEEP}, "db": {"command": SLEEP}})
    hold.up()
    with pytest.raises(HoldfastError, match="needs the name") as caught:
        hold.ask("custom_restart")
    assert "web, db" in caught.value.hint
    config(hold, {"web": {"command": SLEEP}, "db": {"command": SLEEP}}, default_service="db")
    hold.up()
    assert hold.ask("custom_restart")["service"] == "db"


def test_the_settings_decide_and_the_caller_cannot(hold: Hold) -> None:
    """is_safe true grants nothing, false refuses; a shell is off unless it is allowed."""
    pid = web_up(hold)
    shell = {"command_type": "Shell", "command": "echo hi | cat", "is_safe": True}
    assert "allow_shell: true" in refused(hold, "custom_restart", pre_commands=[shell])
    doubtful = {"command": "echo hi", "is_safe": False}
    assert "is_safe: false" in refused(hold, "execute_command", custom_command=doubtful)
    assert hold.service("web")["pid"] == pid
    assert events(hold, "workflow:started", "command:started") == []
    web_up(hold, commands={"allow_shell": True})
    result = hold.ask("execute_command", custom_command=shell)
    assert result["steps"][0]["out"] == "hi\n"
    hold.cli("custom-restart", "--shell", "--pre-command", "true && true")
    commands = {"hello": {"command": "echo hello", "allowed_in_production": True}, "hi": "echo hi"}
    web_up(hold, production=True, commands=commands)
    assert "production" in refused(hold, "execute_command", custom_command={"command": "ls"})
    assert "production" in refused(hold, "execute_command", custom_command={"command": "hi"})
    assert hold.cli("exec", "hello").stdout == "hello\n"


def test_one_custom_restart_of_a_service_at_a_time(hold: Hold) -> None:
    """The second is refused, and told what is under way; it can be ended by its id."""
    pid = web_up(hold)
    slow = script(hold, "slow", SLOW)
    command = hold.command("custom-restart", "web", "--pre-command", slow)
    with started(command, cwd=hold.project, env=hold.environ) as first:
        read_until(first, b"begun")
        message = refused(hold, "custom_restart", service="web")
        assert "under way already" in message
        assert "step 1 of 2 (./slow)" in message
        (under_way,) = hold.ask("workflows")["under_way"]
        assert (under_way["service"], under_way["what"]) == ("web", "./slow")
        assert under_way["id"] in hold.cli("workflow").stdout
        hold.cli("workflow", "--cancel", under_way["id"])
        assert b"cancelled" in read_until(first, b"was not touched")
        assert first.wait(30) == 1
    wait_for(lambda: not any(is_alive(int(p)) for p in (hold.project / "pids").read_text().split()))
    assert hold.service("web")["pid"] == pid
    assert hold.ask("workflows")["under_way"] == []


def test_ctrl_c_ends_the_command_and_touches_nothing(hold: Hold) -> None:
    """Who waits for a command before and thinks better of it leaves the service as it was."""
    pid = web_up(hold)
    slow = script(hold, "slow", SLOW)
    command = hold.command("custom-restart", "web", "--pre-command", slow)
    with started(command, cwd=hold.project, env=hold.environ) as waiting:
        read_until(waiting, b"begun")
        waiting.send_signal(signal.SIGINT)
        assert b"cancelled" in read_until(waiting, b"was not touched")
    wait_for(lambda: not any(is_alive(int(p)) for p in (hold.project / "pids").read_text().split()))
    assert hold.service("web")["pid"] == pid


def test_a_killed_supervisor_says_what_it_could_not_finish(hold: Hold) -> None:
    """kill -9 during a command before: it dies, the service is untouched, and all is told."""
    pid = web_up(hold)
    slow = script(hold, "slow", SLOW)
    args = ("--pre-command", slow, "--post-command", "echo later")
    command = hold.command("custom-restart", "web", *args)
    with started(command, cwd=hold.project, env=hold.environ, stderr=-2) as waiting:
        read_until(waiting, b"begun")
        kill_9(hold.supervisor_pid)
        told = read_until(waiting, b"did not end")
        assert b"interrupted" in told
        assert waiting.wait(60) == 1
    (finished,) = wait_for(lambda: events(hold, "workflow:finished"))
    assert finished["data"]["outcome"] == "interrupted"
    assert "step 1 of 3, ./slow" in finished["data"]["reason"]
    assert finished["data"]["skipped"] == ["restart web", "echo later"]
    wait_for(lambda: not any(is_alive(int(p)) for p in (hold.project / "pids").read_text().split()))
    assert hold.service("web")["pid"] == pid
    kill_9(hold.supervisor_pid)
    wait_for(lambda: hold.service("web")["pid"] == pid)
    assert len(events(hold, "workflow:finished")) == 1, "it is told once"


def test_a_supervisor_killed_while_restarting_leaves_no_service_stopped(hold: Hold) -> None:
    """kill -9 between stop and start: the successor brings it up, with what was asked for."""
    stubborn = "import signal, time\nsignal.signal(15, lambda *_: None)\n" + (
        "print('up', flush=True)\nwhile True: time.sleep(60)"
    )
    command = [PYTHON, "-I", "-S", "-c", stubborn]
    config(hold, {"web": {"command": command, "stop": {"grace": "1s"}}})
    hold.up()
    wait_for(lambda: b"up" in hold.raw("web"))
    pid = hold.service("web")["pid"]
    connection = Connection(str(hold.runtime / "line.sock"))
    connection.send("custom_restart", service="web", env_vars={"MODE": "fast"})
    wait_for(lambda: hold.service("web")["status"] == "stopping")
    kill_9(hold.supervisor_pid)
    connection.close()
    status = wait_for(
        lambda: (s := hold.service("web"))["status"] == "running" and s["pid"] != pid and s
    )
    assert status["overrides"] == {"env_vars": ["MODE"]}
    environ = Path(f"/proc/{status['pid']}/environ")
    if environ.exists():
        assert b"MODE=fast" in environ.read_bytes().split(b"\0")
    (finished,) = events(hold, "workflow:finished")
    assert finished["data"]["outcome"] == "interrupted"


def test_no_secret_is_told(hold: Hold) -> None:
    """Values of variables and secrets in arguments are in no event, log, status or audit."""
    web_up(hold)
    command = {
        "command": "echo",
        "args": ["--token", "hunter2", "PASSWORD=hunter2", "https://u:hunter2@host"],
        "env": {"ANYTHING": "hunter2"},
        "description": "uses token=hunter2",
    }
    hold.ask(
        "custom_restart", pre_commands=[command], post_commands=[command],
        env_vars={"PLAIN": "hunter2"},
    )  # fmt: skip
    hold.ask("execute_command", custom_command=command)
    assert "hunter2" not in json.dumps(hold.ask("events", limit=1000))
    assert "hunter2" not in json.dumps(hold.status())
    for path in hold.state.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path


def test_down_ends_what_is_under_way(hold: Hold) -> None:
    """A command that runs when Holdfast goes does not outlive it."""
    web_up(hold)
    slow = script(hold, "slow", SLOW)
    command = hold.command("custom-restart", "web", "--pre-command", slow)
    with started(command, cwd=hold.project, env=hold.environ, stderr=-3) as waiting:
        read_until(waiting, b"begun")
        hold.cli("down")
        assert waiting.wait(60) != 0
    pids = [int(word) for word in (hold.project / "pids").read_text().split()]
    wait_for(lambda: not any(map(is_alive, pids)))
