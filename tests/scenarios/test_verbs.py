"""A person declares services and uses the verbs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time

import psutil
import pytest

from tests.harness import Hold, is_alive, program, quick, read_until, started, wait_for

SLEEP = ["sleep", "300"]


def test_up_status_stop_start(hold: Hold) -> None:
    """up starts what is declared, status tells it, stop and start are idempotent."""
    hold.services(web=SLEEP, db=SLEEP)
    hold.up()
    status = hold.json("status")
    assert set(status["services"]) == {"web", "db"}
    assert status["supervisor"]["managed_services"] == 2
    web = hold.wait_status("web", "running")
    assert is_alive(web["pid"])
    assert web["exit_code"] is None
    assert web["log_bytes"] == 0
    assert hold.json("start", "web")["services"]["web"]["outcome"] == "already_running"
    assert hold.service("web")["pid"] == web["pid"]
    assert hold.json("stop", "web")["services"]["web"]["outcome"] == "stopped"
    assert not is_alive(web["pid"])
    assert hold.json("stop", "web")["services"]["web"]["outcome"] == "already_stopped"
    stopped = hold.service("web")
    assert (stopped["status"], stopped["pid"]) == ("stopped", None)
    assert hold.json("start", "web")["services"]["web"]["outcome"] == "started"
    assert hold.service("web")["pid"] != web["pid"]


def test_unknown_service_suggests(hold: Hold) -> None:
    """A misspelt name is answered with the near one, the known ones, and exit code 3."""
    hold.services(web=SLEEP, db=SLEEP)
    hold.up()
    done = hold.cli("stop", "wbe", expect=3)
    assert 'no service "wbe"; did you mean "web"? known:' in done.stderr


def test_found_from_a_folder_below(hold: Hold) -> None:
    """The project's Holdfast is found from any folder below its configuration."""
    hold.services(web=SLEEP)
    hold.up()
    below = hold.project / "a" / "b"
    below.mkdir(parents=True)
    assert "web" in hold.cli("status", cwd=below).stdout


def test_no_daemon_is_exit_4(hold: Hold) -> None:
    """Without a Holdfast, status says so, says the next step, and exits 4."""
    hold.services(web=SLEEP)
    done = hold.cli("status", expect=4)
    assert "holdfast up" in done.stderr
    answer = hold.cli("logs", "web", expect=4)
    assert "nothing runs here" in answer.stderr, "nobody can know whether there is a web"
    assert "other.yaml: no such file" in hold.cli("-c", "other.yaml", "status", expect=4).stderr


def test_run_needs_no_configuration(hold: Hold) -> None:
    """A bare command is supervised, under its own name, and its exit code is known."""
    hold.cli("run", "--name", "job", "--", "sh", "-c", "echo hello; exit 0")
    done = hold.wait_status("job", "exited")
    assert done["exit_code"] == 0
    assert hold.raw("job") == b"hello\n"


def test_run_wait_passes_the_exit_code_on(hold: Hold) -> None:
    """run --wait follows the command and exits with its code."""
    done = hold.cli("run", "--wait", "--restart", "never", "--", "sh", "-c", "echo out; exit 7",
                    expect=7)  # fmt: skip
    assert "out" in done.stdout


def test_run_wait_in_json(hold: Hold) -> None:
    """Every line of standard output is JSON: what it printed, then how it ended."""
    printing = "echo out; echo err >&2; printf half; exit 7"
    done = hold.cli("run", "--wait", "--json", "--", "sh", "-c", printing, expect=7)
    *lines, end = map(json.loads, done.stdout.splitlines())
    told = {(line["stream"], line["text"], line["partial"]) for line in lines}
    assert told == {("out", "out", False), ("err", "err", False), ("out", "half", True)}
    assert (end["service"], end["exit_code"]) == ("sh", 7)
    assert done.stderr == ""


def test_run_never_takes_another_program_for_its_own(hold: Hold) -> None:
    """What nobody named gets a name that is free; a chosen name that another has is refused."""
    hold.services(web=quick())
    hold.up()
    hold.cli("run", "--", "sleep", "300")
    assert "already running" in hold.cli("run", "--", "sleep", "300").stdout
    assert "sleep-2: started" in hold.cli("run", "--", "sleep", "301").stdout
    assert "sleep-2: already running" in hold.cli("run", "--", "sleep", "301").stdout
    assert "web-2: started" in hold.cli("run", "--no-wait", "--", "sh", "web").stdout
    done = hold.cli("run", "--name", "sleep", "--wait", "--", "sleep", "301", expect=1)
    assert "sleep runs another program" in done.stderr
    assert "choose another name" in done.stderr
    hold.cli("stop", "sleep", "web")
    hold.cli("run", "--name", "sleep", "--", "sleep", "302")
    hold.cli("run", "--name", "web", "--", "sleep", "303", expect=5)


def test_run_of_a_program_that_is_not_there_fails_at_once(hold: Hold) -> None:
    """A mistyped command is told, and not tried again and again."""
    done = hold.cli("run", "--name", "typo", "--", "no-such-program", expect=1)
    assert "No such file" in done.stdout + done.stderr
    assert hold.service("typo")["status"] == "failed"
    assert "holdfast explain typo" in hold.cli("status").stdout


def test_own_log_tells_what_happened(hold: Hold) -> None:
    """holdfast.log says which service ended, and how."""
    hold.cli("run", "--name", "job", "--restart", "never", "--", "sh", "-c", "exit 3", expect=1)
    hold.wait_status("job", "failed")
    log = hold.state / "holdfast.log"
    wait_for(lambda: "exit service=job code=3" in log.read_text())


def test_no_events_are_no_events(hold: Hold) -> None:
    """events -n 0 tells none, also of a replay; with -f, only what happens from then on."""
    hold.services(web=SLEEP)
    hold.up()
    hold.wait_status("web", "running")
    for words in (("-n", 0), ("--since", 0, "-n", 0), ("-n", 0, "nobody")):
        done = hold.cli("events", *words)
        assert (done.stdout, done.stderr) == ("", "")
    assert hold.ask("events", since=1, limit=0) == {"events": [], "last": 1}
    assert hold.json("runs", "web", "-n", 0) == {"runs": []}
    newest = hold.ask("events", limit=0)["last"]
    argv = hold.command("events", "-f", "--since", 0, "-n", 0, "--json")
    with started(argv, env=hold.environ, cwd=hold.project) as following:
        assert following.stdout is not None
        out = following.stdout.fileno()

        def is_told() -> bool:
            hold.ask("pause", services=["web"])
            hold.ask("resume", services=["web"])
            return bool(select.select([out], [], [], 0.05)[0])

        wait_for(is_told)
        first = json.loads(read_until(following, b"\n").splitlines()[0])
    assert first["seq"] > newest


def test_events_of_a_misspelt_name(hold: Hold) -> None:
    """Answered with the near one, as everywhere; what was removed still has its history."""
    hold.services(web=SLEEP)
    hold.up()
    for words in (("wbe",), ("-f", "wbe"), ("-f", "-n", 0, "wbe"), ("--since", 0, "wbe")):
        assert 'did you mean "web"?' in hold.cli("events", *words, expect=3).stderr
    hold.cli("run", "--name", "job", "--", "true")
    hold.cli("rm", "job")
    assert "exit 0" in hold.cli("events", "job").stdout


@pytest.mark.parametrize("words", [("events", "-f"), ("audit", "-f"), ("logs", "-f", "web")])
def test_following_ends_well_when_holdfast_goes_down(hold: Hold, words: tuple[str, ...]) -> None:
    """Nothing went wrong: it says that no more will come, and exits 0."""
    hold.services(web=quick(["sh", "-c", "echo up; exec sleep 300"]))
    hold.up()
    argv = hold.command(*words)
    with started(argv, cwd=hold.project, env=hold.environ, stderr=subprocess.STDOUT) as following:
        read_until(following, b"up")
        hold.cli("down")
        read_until(following, b"holdfast: Holdfast is down; nothing more will come\n")
        assert following.wait(30) == 0


def test_adopt_of_what_cannot_be_adopted_leaves_no_holdfast(hold: Hold) -> None:
    """What was started only to be refused is ended again, as `up` and `run` do."""
    assert "cannot be adopted" in hold.cli("adopt", "--pid", 1, "init", expect=1).stderr
    assert hold.json("ls") == {"holdfasts": []}


def test_a_foreground_with_nothing_to_show_says_so(hold: Hold) -> None:
    """`up` with services that all start on request stays, and does not look hung."""
    hold.services(web={"command": SLEEP, "autostart": False})
    with started(
        hold.command("up"), env=hold.environ, cwd=hold.project, stderr=subprocess.STDOUT
    ) as shown:
        read_until(shown, b"nothing to start")
        hold.cli("start", "web")
        read_until(shown, b"started, pid")
        shown.send_signal(signal.SIGINT)
        assert shown.wait(30) == 0


def test_tail_of_a_replay_is_its_newest_part(hold: Hold) -> None:
    """events --since N --tail M tells the newest M, in order."""
    hold.services(web=SLEEP)
    hold.up()
    every = hold.cli("events", "--since", 0, "--json").stdout.splitlines()
    assert hold.cli("events", "--since", 0, "--tail", 2, "--json").stdout.splitlines() == every[-2:]


def test_caller_environment_reaches_the_service(hold: Hold) -> None:
    """A service gets the environment of the caller of `up`, plus its own."""
    hold.services(web={"command": ["sh", "-c", 'echo "$COLOUR $SHAPE"; sleep 300'],
                       "env": {"SHAPE": "round"}})  # fmt: skip
    hold.up(environ={"COLOUR": "green"})
    wait_for(lambda: hold.raw("web") == b"green round\n")


def test_a_service_that_was_added_to_the_file(hold: Hold) -> None:
    """Who starts one that is not loaded yet is told how it is."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.services(web=["sleep", "300"], cache=["sleep", "300"])
    for verb in ("start", "restart"):
        told = hold.cli(verb, "cache", expect=3).stderr
        assert "`holdfast up cache` loads one that was added to the file" in told
    assert "loads one" not in hold.cli("up", "-d", "cahe", expect=3).stderr
    hold.cli("up", "-d", "cache")
    assert hold.service("cache")["status"] == "running"


def test_wait_for_a_log_line(hold: Hold) -> None:
    """wait answers when a line matches, and times out with exit code 6."""
    hold.services(web=["sh", "-c", "sleep 0.3; echo listening on 80; sleep 300"])
    hold.up()
    hold.cli("wait", "web", "--timeout", "0")
    hold.cli("wait", "web", "--for", "log:listening on [0-9]+", "--timeout", "10s")
    hold.cli("wait", "web", "--for", "log:never", "--timeout", "200ms", expect=6)
    hold.cli("wait", "web", "--for", "exited", "--timeout", "200ms", expect=6)


def test_wait_for_an_unfinished_line(hold: Hold) -> None:
    """A prompt is found in the silence behind it, by who waits and by who depends on it."""
    code = "printf 'pass'; sleep 0.5; printf 'word> '; sleep 300"
    needed = {"condition": "log", "pattern": "word> $"}
    hold.services(
        web=["sh", "-c", code],
        after={"command": ["sleep", "300"], "depends_on": {"web": needed}},
    )
    hold.up()
    found = hold.json("wait", "web", "--for", "log:^password> $", "--timeout", "10s")
    assert found["line"] == "password> "
    hold.cli("wait", "after", "--timeout", "10s")
    hold.cli("wait", "web", "--for", "log:^pass$", "--timeout", "1s", expect=6)


def test_logs_follow_sees_every_line(hold: Hold) -> None:
    """logs -f shows what was and what comes, each line once."""
    truth = hold.folder / "truth"
    hold.services(web=program("count.py", truth, 300, 0.002, 0, "err"))
    hold.up()
    follow = hold.command("logs", "-f", "web", "--json")
    with started(follow, cwd=hold.project, env=hold.environ) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline())["text"] for _ in range(300)]
        assert sorted(lines) == sorted(truth.read_text().splitlines())
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(30) == 130, "as documented, for every verb"


@pytest.mark.parametrize("raw", [(), ("--raw",)])
def test_one_run_is_followed_to_its_end(hold: Hold, raw: tuple[str, ...]) -> None:
    """logs -f --run N shows that run alone, and ends with it; of one that is over, at once."""
    hold.services(web=quick(["sh", "-c", "echo run $HOLDFAST_RUN_ID; exec sleep 300"]))
    hold.up()
    first = hold.service("web")["run_id"]
    wait_for(lambda: hold.raw("web") == f"run {first}\n".encode())
    follow = hold.command("logs", "-f", "web", "--run", 1, *raw)
    with started(follow, cwd=hold.project, env=hold.environ) as process:
        read_until(process, first.encode() + b"\n")
        hold.cli("restart", "web")
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(30) == 0
    again = hold.cli("logs", "-f", "web", "--run", 1, "--tail", 1, *raw)
    assert again.stdout == f"run {first}\n"


def test_logs_of_who_printed_nothing(hold: Hold) -> None:
    """It says whether that can change; also with the supervisor off, a live service is known."""
    hold.cli("run", "--name", "quiet", "--", *SLEEP)
    with started(SLEEP) as other:
        hold.cli("adopt", "--pid", other.pid, "foreign")
        assert "quiet has printed nothing yet" in hold.cli("logs", "quiet").stderr
        assert "foreign was adopted" in hold.cli("logs", "foreign").stderr
        hold.cli("down", "--keep-running")
        assert "quiet has printed nothing yet" in hold.cli("logs", "quiet").stderr
        assert 'did you mean "quiet"?' in hold.cli("logs", "quite", expect=3).stderr
        hold.cli("down")


def test_signal_reaches_the_process(hold: Hold) -> None:
    """signal sends what was asked, by name."""
    hold.services(web=["sh", "-c", "trap 'echo got' USR1; echo up; while :; do sleep 0.05; done"])
    hold.up()
    wait_for(lambda: b"up\n" in hold.raw("web"))
    hold.cli("signal", "USR1", "web")
    wait_for(lambda: b"got\n" in hold.raw("web"))


def test_ps_shows_the_tree(hold: Hold) -> None:
    """ps lists every process of a service, children included."""
    hold.services(web=["sh", "-c", "sleep 301 & sleep 302 & wait"])
    hold.up()
    pids = wait_for(lambda: len(p := hold.json("ps")["services"]["web"]) == 3 and p)
    assert {"sleep 301", "sleep 302"} <= {p["command"] for p in pids}


def test_remove_forgets(hold: Hold) -> None:
    """rm stops a service, forgets it and deletes its log."""
    hold.cli("run", "--name", "job", "--", "sh", "-c", "echo x; sleep 300")
    wait_for(lambda: hold.raw("job") == b"x\n")
    pid = hold.service("job")["pid"]
    hold.cli("rm", "job")
    assert not is_alive(pid)
    assert "job" not in hold.status()["services"]
    assert not list((hold.state / "logs").glob("job.*"))


def test_adopt_takes_over_a_running_process(hold: Hold) -> None:
    """A process that already runs can be taken over by pid and stopped."""
    with started(["sleep", "300"], start_new_session=True) as stranger:
        hold.services(web=SLEEP)
        hold.up()
        hold.cli("adopt", "--pid", stranger.pid, "old")
        adopted = hold.service("old")
        assert (adopted["status"], adopted["pid"]) == ("running", stranger.pid)
        assert adopted["adopted"]
        other = hold.service("web")["pid"]
        again = hold.json("adopt", "--pid", stranger.pid, "old")["services"]["old"]
        assert (again["outcome"], again["run_id"]) == ("already_running", adopted["run_id"])
        assert "runs already" in hold.cli("adopt", "--pid", other, "old", expect=1).stderr
        threading.Thread(target=stranger.wait, daemon=True).start()
        hold.cli("stop", "old")
        wait_for(lambda: stranger.poll() is not None)


def test_the_age_of_an_adopted_process_is_its_own(hold: Hold) -> None:
    """Uptime counts from the start of the process, whoever tells it, and also after a relaunch."""
    with started(["sleep", "300"], start_new_session=True) as stranger:
        alive_since = time.monotonic()
        # Of the machine's start psutil knows whole seconds, so this is up to one of them off.
        began = psutil.Process(stranger.pid).create_time()
        hold.services(web=SLEEP)
        hold.up()
        wait_for(lambda: time.monotonic() - alive_since > 1.6)
        hold.cli("adopt", "--pid", stranger.pid, "old")

        def check() -> None:
            status, now = hold.service("old"), time.time()
            assert status["uptime"] == pytest.approx(now - began, abs=1.2)
            assert status["uptime"] == pytest.approx(now - status["started_at"], abs=0.3)
            assert status["uptime"] > 1.5
            process = hold.json("ps", "old")["services"]["old"][0]
            assert process["started_at"] == pytest.approx(status["started_at"], abs=1.2)
            told = hold.json("explain", "old")["explanations"][0]
            assert told["uptime"] >= status["uptime"]

        check()
        hold.kill_supervisor()
        check()
        own = hold.ask("metrics")["supervisor"]
        assert (own["spawns"], own["spawn_seconds"]) == (0, 0.0)


def test_ls_lists_this_users_holdfasts(hold: Hold) -> None:
    """ls names the project, wherever it is called."""
    hold.services(web=SLEEP)
    hold.up()
    listed = hold.json("ls", cwd="/")
    assert [os.path.realpath(h["project"]) for h in listed["holdfasts"]] == [
        os.path.realpath(hold.project)
    ]


def test_a_moved_project_can_be_ended(hold: Hold) -> None:
    """A Holdfast whose folder is gone is listed with the command that ends it."""
    hold.services(web=quick())
    hold.up()
    pid, state = hold.service("web")["pid"], hold.state
    hold.project.rename(hold.folder / "elsewhere")
    told = hold.cli("ls", cwd="/").stdout
    assert f"`holdfast --state-dir {state} down` ends it" in told
    hold.cli("--state-dir", state, "down", cwd="/")
    assert not is_alive(pid)


def test_another_environment_reaches_the_same_holdfast(hold: Hold) -> None:
    """Sockets are found where the keeper has them, also without XDG_RUNTIME_DIR."""
    hold.services(web=quick())
    hold.up()
    pid = hold.service("web")["pid"]
    elsewhere = {"XDG_RUNTIME_DIR": str(hold.folder)}
    assert hold.json("status", environ=elsewhere)["services"]["web"]["pid"] == pid
    assert "already running" in hold.cli("up", "-d", environ=elsewhere).stdout
    hold.cli("down", environ=elsewhere)
    assert not is_alive(pid)


def test_bare_holdfast_starts_everything(hold: Hold) -> None:
    """holdfast without a verb starts all services of the configuration (foreground)."""
    hold.services(web=["sh", "-c", "echo hi; sleep 300"])
    with started(hold.command(), cwd=hold.project, env=hold.environ) as front:
        read_until(front, b"hi")
        pid = hold.service("web")["pid"]
        front.send_signal(signal.SIGINT)
        front.communicate(timeout=60)
        assert not is_alive(pid)
        wait_for(lambda: not hold.marked_pids())


@pytest.mark.parametrize("verb", ["status", "ps", "events", "doctor", "ls", "runs", "logs"])
def test_reading_verbs_speak_json(hold: Hold, verb: str) -> None:
    """Every reading verb answers --json with JSON."""
    hold.services(web=["sh", "-c", "echo hi; sleep 300"])
    hold.up()
    wait_for(lambda: hold.raw("web") == b"hi\n")
    arguments = [verb, "web"] if verb in ("runs", "logs") else [verb]
    out = hold.cli(*arguments, "--json").stdout
    assert out
    for line in out.splitlines() if verb in ("events", "logs") else [out]:
        json.loads(line)
