"""`up` in the foreground, and how Holdfast begins and is found; with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading

import pytest

from tests.harness import Hold, is_alive, kill_9, wait_for


class Front:
    """An `up` whose output is read as it comes."""

    def __init__(self, hold: Hold, *words: str) -> None:
        self.text = ""
        self.process = subprocess.Popen(
            hold.command("up", *words), cwd=hold.project, env=hold.environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def see(self, wanted: str) -> None:
        wait_for(lambda: wanted in self.text, 60, f"{wanted!r} in the output")

    def end(self) -> int:
        code = self.process.wait(60)
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def test_lines_have_aligned_names_and_ends_are_told(hold: Hold) -> None:
    """Each line begins with its service; Ctrl-C stops all and tells how each ended."""
    hold.services(
        web=["sh", "-c", "echo hi; exec sleep 300"],
        worker=["sh", "-c", "trap 'exit 0' TERM; echo busy >&2; while :; do sleep 0.02; done"],
    )
    front = Front(hold)
    front.see("web    | hi")
    front.see("worker | busy")
    front.process.send_signal(signal.SIGINT)
    assert front.end() == 0, front.text
    assert "worker | -- stopped (exit 0)" in front.text
    assert "Holdfast is down" in front.text
    assert not hold.marked_pids()


def test_only_colours_pass_and_a_restart_says_why(hold: Hold) -> None:
    """No service clears the screen that all share; which file changed is named."""
    printed = r"printf '\033[2J\033[31mred\033[0m\033[H\n10%%\r100%%\n'"
    hold.services(web={"command": ["sh", "-c", f"{printed}; exec sleep 300"], "watch": ["a.txt"]})
    front = Front(hold)
    front.see("web | \x1b[31mred\x1b[0m\n")
    front.see("100%\n")
    assert "10%" not in front.text.replace("100%", "")
    assert "\x1b[2J" not in front.text
    wait_for(lambda: hold.service("web")["status"] == "running")
    (hold.project / "a.txt").write_text("x")
    front.see("files changed: ")
    front.see("a.txt (restart)")
    front.process.send_signal(signal.SIGINT)
    assert front.end() == 0, front.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(hold: Hold, number: int) -> None:
    """Also while the keeper has only begun, which cannot be asked for anything then."""
    hold.services(web=["sleep", "300"])
    front = Front(hold)
    wait_for(lambda: list((hold.folder / "s" / "holdfast").glob("project-*/lock")), what="a lock")
    front.process.send_signal(number)
    assert front.end() in (0, 128 + number), front.text
    assert not hold.marked_pids()


def test_ctrl_c_in_one_that_joined_detaches(hold: Hold) -> None:
    """Only the `up` that started Holdfast stops it."""
    hold.services(web=["sh", "-c", "while :; do echo tick; sleep 0.05; done"])
    hold.up()
    front = Front(hold)
    front.see("web | tick")
    front.process.send_signal(signal.SIGINT)
    assert front.end() == 0
    assert "detached" in front.text
    assert is_alive(hold.service("web")["pid"])


def test_who_was_started_and_who_could_not_be_is_told(hold: Hold) -> None:
    """Also what happened before there was anything to follow: a silent service, a typing error."""
    hold.services(web=["sleep", "300"], typo={"command": ["no-such-program"], "start_retries": 0})
    front = Front(hold, "-t")
    front.see("-- left failed: running no-such-program")
    pid = hold.service("web")["pid"]
    front.process.send_signal(signal.SIGINT)
    assert front.end() == 0, front.text
    assert f"-- started, pid {pid}" in front.text
    assert "typo | --" not in front.text, "words of ours have a time, too"


def test_a_closed_terminal_leaves_everything_running(hold: Hold) -> None:
    """Also in the `up` that started Holdfast: nobody asked for an end."""
    hold.services(web=["sh", "-c", "echo hi; exec sleep 300"])
    front = Front(hold)
    front.see("web | hi")
    front.process.send_signal(signal.SIGHUP)
    front.end()
    assert is_alive(hold.service("web")["pid"])


def test_ctrl_c_twice_is_at_once(hold: Hold) -> None:
    """A service that will not end is killed at the second Ctrl-C, before its grace is over."""
    hold.services(
        web={
            "command": ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"],
            "stop": {"grace": 300},
        }
    )
    front = Front(hold)
    front.see("deaf")
    front.process.send_signal(signal.SIGINT)
    front.see("stopping everything")
    wait_for(lambda: hold.service("web")["status"] == "stopping")
    front.process.send_signal(signal.SIGINT)
    front.end()
    assert not hold.marked_pids()


def test_up_ends_when_everything_has_ended(hold: Hold) -> None:
    """With nothing left to hold, `up` ends, and tells by its exit code if one failed."""
    hold.services(job={"command": ["sh", "-c", "echo done"], "restart_policy": "never"})
    front = Front(hold)
    assert front.end() == 0, front.text
    assert "job | done" in front.text
    assert not hold.marked_pids()


def test_up_ends_though_something_stays_off(hold: Hold) -> None:
    """What was left off at the start, and ran in an earlier life, is not waited for."""
    hold.services(web=["sleep", "300"])
    hold.up()
    hold.cli("stop", "web")
    hold.cli("down")
    failing = {"command": ["sh", "-c", "exit 1"], "restart_policy": "never"}
    hold.services(job=failing, web=["sleep", "300"])
    front = Front(hold, "--unless-stopped")
    assert front.end() == 1, front.text
    assert "web stays stopped" in front.text


def test_output_goes_on_over_a_killed_supervisor(hold: Hold) -> None:
    """The foreground joins the new supervisor: no line is missing, none comes twice."""
    hold.services(web=["sh", "-c", "n=0; while :; do echo n$n; n=$((n+1)); sleep 0.01; done"])
    front = Front(hold, "--no-prefix")
    front.see("n20\n")
    kill_9(hold.supervisor_pid)
    wait_for(lambda: hold.status())
    count = front.text.count("\n")
    wait_for(lambda: front.text.count("\n") > count + 50)
    front.process.send_signal(signal.SIGINT)
    front.end()
    numbers = [
        int(line[1:]) for line in front.text.splitlines() if line[:1] == "n" and line[1:].isdigit()
    ]
    assert numbers == list(range(len(numbers)))


def test_a_bad_configuration_starts_nothing(hold: Hold) -> None:
    """Exit code 7, every error told, and no Holdfast left behind."""
    hold.write({"services": {"web": {"comand": "x"}}})
    done = hold.cli("up", "-d", expect=7)
    assert "comand" in done.stderr
    assert not hold.marked_pids()


def test_two_at_once_share_one_holdfast(hold: Hold) -> None:
    """Simultaneous `up`s end in one keeper; both succeed."""
    hold.services(web=["sleep", "300"])
    ups = [
        subprocess.Popen(hold.command("up", "-d"), cwd=hold.project, env=hold.environ,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(4)
    ]  # fmt: skip
    said = [up.communicate(timeout=60)[0] for up in ups]
    assert [up.returncode for up in ups] == [0] * 4, said
    pids = hold.marked_pids()
    keepers = [pid for pid in pids if _is_keeper(pid)]
    assert len(keepers) == 1, said


def _is_keeper(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"/keeper/__main__.py" in file.read()
    except OSError:
        return False


def test_ls_tells_the_stale_and_the_elsewhere(hold: Hold) -> None:
    """A Holdfast in another state folder is listed; one that was killed is stale."""
    hold.services(web=["sleep", "300"])
    elsewhere = hold.folder / "else"
    hold.cli("--state-dir", elsewhere, "up", "-d")
    listed = hold.json("ls", cwd="/")["holdfasts"]
    assert [(one["state_folder"], one["status"]) for one in listed] == [
        (os.path.realpath(elsewhere), "running")
    ]
    hold.cli("--state-dir", elsewhere, "down")
    assert hold.json("ls")["holdfasts"] == []
    (elsewhere / "keeper.json").write_text(json.dumps({"pid": 1, "project": "/p"}))
    assert [one["status"] for one in hold.json("ls")["holdfasts"]] == ["stale"]


def test_a_keeper_that_cannot_start_is_told(hold: Hold) -> None:
    """The message says why, and the next step."""
    blocked = hold.folder / "blocked"
    blocked.write_text("not a folder")
    done = hold.cli("--state-dir", blocked / "state", "run", "--", "true", expect=None)
    assert done.returncode != 0
    assert done.stderr.startswith("holdfast: ")
    assert "Traceback" not in done.stderr
