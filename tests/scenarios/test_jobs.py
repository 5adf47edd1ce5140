"""Jobs as a user meets them: queued, run, tried again, followed, cancelled."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from holdfast.vocabulary.errors import Conflict, HoldfastError, NotFound, Refused
from tests.harness import PYTHON, Hold, is_alive, kill_9, quick, wait_for

REPORT = f"{PYTHON} -m holdfast job report"
CONFIG: dict[str, Any] = {
    "services": {"web": quick(start_seconds=0)},
    "jobs": {
        "hello": {"command": "echo hello"},
        "words": {"command": ["echo"], "takes_args": True, "remove_on_complete": False},
        "bad": {
            "command": ["sh", "-c", "echo tried; exit 3"],
            "attempts": 2,
            "backoff": {"delay": "50ms"},
        },
        "long": {"command": ["sleep", "1000"], "stop": {"grace": "200ms"}},
        "slow": {"command": ["sleep", "1000"], "timeout": "300ms", "attempts": 1},
        "single": {"command": ["sleep", "1000"], "concurrency": 1, "stop": {"grace": "200ms"}},
        "telling": {
            "command": ["sh", "-c", f"{REPORT} --progress 40 && {REPORT} --result '[1, 2]'"],
            "remove_on_complete": False,
        },
    },
    "queue": {"concurrency": 3},
}


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as hold:
        hold.write(CONFIG)
        hold.up()
        yield hold


def add(hold: Hold, template: str | None = None, **fields: Any) -> str:
    named = {} if template is None else {"template": template}
    job: str = hold.ask("add_job", **named, **fields)["job"]["id"]
    return job


def show(hold: Hold, job: str) -> dict[str, Any]:
    found: dict[str, Any] = hold.ask("show_job", job=job)["job"]
    return found


def over(hold: Hold, job: str) -> dict[str, Any]:
    found: dict[str, Any] = hold.ask("wait_job", job=job, timeout=30)["job"]
    return found


def running(hold: Hold, job: str) -> int:
    pid: int = wait_for(lambda: show(hold, job)["pid"], what=f"{job} to run")
    return pid


def test_a_job_runs_once_and_is_recorded(hold: Hold) -> None:
    """It is completed, taken off the list, and its output can be read."""
    job = add(hold, "hello")
    assert over(hold, job)["state"] == "completed"
    assert job.startswith("job-hello-")
    assert [line["text"] for line in hold.ask("job_logs", job=job)["lines"]] == ["hello"]
    assert job not in [one["id"] for one in hold.ask("list_jobs")["jobs"]]


def test_a_failed_job_is_tried_again_and_kept_with_its_reason(hold: Hold) -> None:
    """Each attempt's output is there, the dead one is listed, and can be retried."""
    job = add(hold, "bad")
    found = over(hold, job)
    assert (found["state"], found["attempts"], found["reason"]) == ("failed", 2, "exit code 3")
    lines = hold.ask("job_logs", job=job)["lines"]
    assert [(line["run"], line["text"]) for line in lines] == [(1, "tried"), (2, "tried")]
    listed = hold.ask("list_jobs", states=["failed"])["jobs"]
    assert job in [one["id"] for one in listed]
    assert hold.ask("retry_job", job=job)["job"]["attempts"] == 0
    assert over(hold, job)["state"] == "failed"
    assert hold.ask("cancel_job", job=job)["job"]["state"] == "cancelled"


def test_a_job_of_its_own_runs_with_its_words(hold: Hold) -> None:
    """Any command can be queued by the owner; one that does not exist fails with the reason."""
    job = add(hold, argv=["echo", "one  two"], remove_on_complete=False)
    assert over(hold, job)["exit_code"] == 0
    assert hold.ask("job_logs", job=job)["lines"][0]["text"] == "one  two"
    job = add(hold, argv=["no-such-program"], attempts=1)
    assert "could not be started" in over(hold, job)["reason"]


def test_a_timeout_ends_the_whole_job(hold: Hold) -> None:
    """It is a failure, and says how long it was allowed to take."""
    found = over(hold, add(hold, "slow"))
    assert found["state"] == "failed"
    assert "timeout" in found["reason"]


def test_a_running_job_is_cancelled_with_its_process(hold: Hold) -> None:
    """When the answer comes, no process is left; it is not tried again."""
    job = add(hold, "long")
    pid = running(hold, job)
    assert hold.ask("cancel_job", job=job)["job"]["state"] == "cancelled"
    assert not is_alive(pid)
    assert show(hold, job)["state"] == "cancelled"


def test_no_more_of_a_template_run_than_it_allows(hold: Hold) -> None:
    """A second waits, and does not keep other jobs from running."""
    first, second = add(hold, "single"), add(hold, "single")
    running(hold, first)
    assert over(hold, add(hold, "hello"))["state"] == "completed"
    assert show(hold, second)["state"] == "waiting"
    hold.ask("cancel_job", job=first)
    running(hold, second)
    hold.ask("cancel_job", job=second)


def test_progress_and_result_come_from_the_job_itself(hold: Hold) -> None:
    """It reports with the token that it was given; a token that is over changes nothing."""
    job = add(hold, "telling")
    found = over(hold, job)
    assert (found["state"], found["progress"], found["result"]) == ("completed", 40, [1, 2])
    with pytest.raises(Conflict):
        hold.ask("report_job", job=job, token="1-x", progress=1)


def test_a_paused_queue_starts_nothing(hold: Hold) -> None:
    """Jobs are taken, and run once it goes on."""
    hold.ask("pause_jobs")
    job = add(hold, "hello")
    assert hold.ask("job_stats")["is_paused"]
    assert show(hold, job)["state"] == "waiting"
    hold.ask("resume_jobs")
    assert over(hold, job)["state"] == "completed"


def test_a_job_after_another_waits_for_it(hold: Hold) -> None:
    """It runs when the other is completed, and says meanwhile what it waits for."""
    first = add(hold, "hello", delay=3600)
    second = add(hold, "hello", after=[first])
    assert first in show(hold, second)["reason"]
    hold.ask("cancel_job", job=first)
    assert show(hold, second)["state"] == "failed"
    third = add(hold, "hello", after=[add(hold, "hello")])
    assert over(hold, third)["state"] == "completed"


def test_equal_unique_texts_make_one_job(hold: Hold) -> None:
    """The second request is answered with the first job."""
    first = hold.ask("add_job", template="hello", unique="nightly", delay=3600)
    second = hold.ask("add_job", template="hello", unique="nightly")
    assert not second["is_new"]
    assert first["job"]["id"] == second["job"]["id"]
    hold.ask("cancel_job", job=first["job"]["id"])


def test_a_repeated_job_comes_again(hold: Hold) -> None:
    """It is added at its times until it is cancelled; a list of states does not have it."""
    repeat = hold.ask("add_job", template="words", argv=["tick"], every=1)["repeat"]
    assert repeat["schedule"] == "every 1s"

    def ticks() -> int:
        jobs = hold.ask("list_jobs", templates=["words"])["jobs"]
        return sum("tick" in one["command"] for one in jobs)

    wait_for(lambda: ticks() >= 2, what="two ticks")
    assert repeat["id"] in hold.cli("job", "ls").stdout
    assert repeat["id"] not in hold.cli("job", "ls", "--state", "failed").stdout
    hold.ask("cancel_job", job=repeat["id"])
    assert hold.ask("list_jobs")["repeats"] == []


def test_a_kill_job_means_one_very_process(hold: Hold) -> None:
    """T19: when the service has another process by then, it is refused and nothing is sent."""
    old = hold.service("web")["pid"]
    late = add(hold, kind="kill", service="web", signal="SIGKILL", delay=0.5)
    hold.ask("restart", services=["web"])
    new = hold.wait_status("web", "running")["pid"]
    found = over(hold, late)
    assert found["state"] == "failed"
    assert str(old) in found["reason"]
    assert is_alive(new)
    now = add(hold, kind="kill", service="web", signal="SIGKILL")
    assert over(hold, now)["state"] == "completed"
    wait_for(lambda: not is_alive(new))


def test_a_kill_job_refuses_a_number_that_was_given_out_again(hold: Hold) -> None:
    """T19: the same number with another start time is another process, and is not touched."""
    hold.wait_status("web", "running")
    hold.ask("pause_jobs")
    job = add(hold, kind="kill", service="web", signal="SIGKILL")
    with closing(sqlite3.connect(hold.state / "jobs.db", timeout=30)) as db:
        (stored,) = db.execute("SELECT request FROM jobs WHERE id = ?", (job,)).fetchone()
        request = json.loads(stored)
        request["target"]["start_time"] = "1"
        db.execute("UPDATE jobs SET request = ? WHERE id = ?", (json.dumps(request).encode(), job))
        db.commit()
    hold.ask("resume_jobs")
    found = over(hold, job)
    assert (found["state"], "nothing was sent" in found["reason"]) == ("failed", True)
    assert is_alive(request["target"]["pid"])


def test_the_verb_follows_a_job_and_exits_as_it_did(hold: Hold) -> None:
    """`job add --follow` prints what it prints; `ls` and `show` tell why it failed."""
    done = hold.cli("job", "add", "-f", "--attempts", "1", "--", "sh", "-c", "echo here; exit 7",
                    expect=7)  # fmt: skip
    assert "here" in done.stdout
    failed = hold.cli("job", "ls", "--state", "failed").stdout
    assert "exit code 7" in failed
    job = hold.json("job", "add", "words", "a", "b")["job"]["id"]
    assert hold.cli("job", "wait", job).returncode == 0
    assert hold.cli("job", "logs", job).stdout == "a b\n"
    assert "completed" in hold.cli("job", "show", job).stdout
    assert json.loads(hold.cli("job", "stats", "--json").stdout)["queue"] == "process-queue"
    assert "is none of" in hold.cli("job", "dance", expect=2).stderr
    assert "did you mean" in hold.cli("job", "add", "helo", expect=None).stderr


def test_a_busy_host_delays_a_job_and_does_not_fail_it(hold: Hold) -> None:
    """C25: the limits are looked at when it starts; it says what it waits for."""
    hold.write({**CONFIG, "limits": {"max_processes": 1}})
    hold.cli("reload")
    try:
        job = add(hold, "hello")
        found = wait_for(lambda: (one := show(hold, job))["reason"] and one)
        assert found["state"] == "waiting"
        assert "Process limit exceeded" in found["reason"]
    finally:
        hold.write(CONFIG)
        hold.cli("reload")
    assert over(hold, job)["state"] == "completed"


def test_a_job_goes_on_when_its_supervisor_dies(hold: Hold) -> None:
    """The same process is followed by the next supervisor, and its end is taken from there."""
    job = add(hold, "long")
    pid = running(hold, job)
    hold.kill_supervisor()
    assert running(hold, job) == pid
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: show(hold, job)["state"] == "delayed")
    hold.ask("cancel_job", job=job)


def test_an_operator_gets_templates_and_not_more(hold: Hold) -> None:
    """A token limited to one template neither sees nor touches the jobs of another."""
    text = hold.ask("create_token", token_name="renderer", role="operator", services=["job:words"])[
        "text"
    ]
    caller = {"token": text, "door": "rest"}
    job = hold.ask("add_job", template="words", argv=["x"], caller=caller)["job"]["id"]
    assert hold.ask("wait_job", job=job, caller=caller)["job"]["state"] == "completed"
    other = add(hold, "hello", delay=3600)
    for command, fields in (
        ("add_job", {"template": "hello"}),
        ("add_job", {"argv": ["id"]}),
        ("show_job", {"job": other}),
        ("cancel_job", {"job": other}),
        ("job_logs", {"job": other}),
    ):
        with pytest.raises(Refused):
            hold.ask(command, caller=caller, **fields)
    seen = hold.ask("list_jobs", caller=caller)["jobs"]
    assert {one["template"] for one in seen} == {"words"}
    hold.ask("cancel_job", job=other)


def test_an_admins_own_words_are_judged_by_the_command_policy(hold: Hold) -> None:
    """Through REST a job is no way around what `execute_command` refuses."""
    text = hold.ask("create_token", token_name="admin", role="admin")["text"]
    caller = {"token": text, "door": "rest"}
    for argv in (["sh", "-c", "id"], ["id"]):
        with pytest.raises(Refused, match=r"commands: \{allowed_types: "):
            hold.ask("add_job", argv=argv, caller=caller)
    job = hold.ask("add_job", template="hello", caller=caller)["job"]["id"]
    assert over(hold, job)["state"] == "completed"


def spoil(hold: Hold, job: str, request: bytes) -> None:
    with closing(sqlite3.connect(hold.state / "jobs.db", timeout=30)) as db:
        db.execute("UPDATE jobs SET request = ? WHERE id = ?", (request, job))
        db.commit()


def test_a_job_that_cannot_be_read_fails_and_the_queue_goes_on(hold: Hold) -> None:
    """The damaged ones end with their reasons, and those after them run."""
    hold.ask("pause_jobs")
    damaged, faulty, good = (add(hold, "hello") for _ in range(3))
    spoil(hold, damaged, b"{")
    spoil(hold, faulty, b'{"kind": "kill"}')
    hold.ask("resume_jobs")
    assert over(hold, good)["state"] == "completed"
    for job, reason in ((damaged, "cannot be read"), (faulty, "an error within Holdfast")):
        found = over(hold, job)
        assert (found["state"], reason in found["reason"]) == ("failed", True), found
        assert found["attempts"] == 1
        hold.ask("cancel_job", job=job)


def test_a_running_job_that_cannot_be_read_any_more_is_followed(hold: Hold) -> None:
    """Its process goes on under the next supervisor, and the queue is ready."""
    job = add(hold, "long")
    pid = running(hold, job)
    spoil(hold, job, b"{")
    kill_9(hold.supervisor_pid)
    assert over(hold, add(hold, "hello"))["state"] == "completed"
    assert running(hold, job) == pid
    hold.ask("cancel_job", job=job)
    wait_for(lambda: not is_alive(pid))


def test_unknown_jobs_are_said_to_be_unknown(hold: Hold) -> None:
    """The error says what helps."""
    for command in ("show_job", "cancel_job", "retry_job", "job_logs", "wait_job"):
        with pytest.raises(NotFound):
            hold.ask(command, job="job-none")
    with pytest.raises(HoldfastError):
        hold.ask("add_job")


def test_a_shutdown_puts_running_jobs_back() -> None:
    """`down` ends their processes; the next `up` runs them again, and no attempt is counted."""
    with Hold() as hold:
        hold.write(CONFIG)
        hold.up()
        job = add(hold, "long")
        pid = running(hold, job)
        hold.cli("down")
        assert not is_alive(pid)
        hold.up()
        again = running(hold, job)
        assert again != pid
        assert show(hold, job)["attempts"] == 1
        began = time.monotonic()
        hold.ask("cancel_job", job=job)
        assert time.monotonic() - began < 30


def test_run_with_a_delay_goes_through_the_queue(hold: Hold) -> None:
    """It is a job, which runs once when its time has come."""
    job = hold.cli("run", "--delay", "100ms", "--", "echo", "later").stdout.strip()
    assert over(hold, job)["state"] == "completed"
    assert hold.ask("job_logs", job=job)["lines"][0]["text"] == "later"
    assert "leave out" in hold.cli("run", "--delay", "1s", "--wait", "--", "true", expect=2).stderr


def test_a_lockdown_holds_the_queue() -> None:
    """Nothing is started in an emergency; afterwards the queue goes on by itself."""
    with Hold() as hold:
        hold.write({**CONFIG, "runtime_mode": "advanced"})
        hold.up()
        job = add(hold, "hello", delay=0.3)
        hold.ask("lockdown", reason="a drill")
        wait_for(lambda: hold.ask("job_stats")["waits_for"] == "a lockdown is in force")
        assert show(hold, job)["attempts"] == 0
        hold.ask("unlock")
        assert over(hold, job)["state"] == "completed"


def test_prometheus_is_told_of_the_queue(hold: Hold) -> None:
    """States are gauges, what has happened is counted."""
    over(hold, add(hold, "hello"))
    queue = hold.ask("metrics")["queue"]
    assert queue["totals"]["completed"] >= 1
    assert queue["concurrency"] == 3


def test_what_a_job_tells_about_itself_has_no_secrets(hold: Hold) -> None:
    """Its progress and result are told without them, like its output."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    told = json.dumps({"token": secret, "said": f"used {secret}"})
    command = f"{REPORT} --progress '\"{secret}\"' && {REPORT} --result '{told}'"
    job = add(hold, argv=["sh", "-c", command], remove_on_complete=False)
    done = hold.ask("wait_job", job=job)["job"]
    assert done["state"] == "completed"
    assert done["result"]["said"].startswith("used ")
    assert secret not in json.dumps(done)


def test_a_key_tells_no_job_of_another_template(hold: Hold) -> None:
    """Who may use one template learns nothing of a job of another by its `unique` text."""
    job = add(hold, "long", unique="nightly")
    with pytest.raises(Conflict, match="nightly"):
        hold.ask("add_job", template="words", argv=["x"], unique="nightly")
    again = hold.ask("add_job", template="long", unique="nightly")
    assert (again["job"]["id"], again["is_new"]) == (job, False)
    hold.ask("cancel_job", job=job)
