"""A command in a service's environment, and what is typed into services and tasks."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.person import Person
from tests.harness import Hold, quick, wait_for


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    """One Holdfast for the module: nothing here changes its services."""
    with Hold(INHERITED="from-up", API_SECRET="inherited-secret") as one:
        (one.project / "below").mkdir()
        one.services(
            web=quick(
                working_dir="below",
                env={"COLOUR": "red", "DB_PASSWORD": "hunter2hunter2"},
                port="auto",
                umask="027",
            ),
            bare=quick(environment="clean", env={"PATH": os.environ["PATH"]}),
            shell=quick(["cat"], terminal=True),
            reader=quick(["cat"], stdin="pipe"),
            idle=quick(autostart=False, env={"A": "declared"}),
        )
        one.up()
        yield one


def test_exec_gets_folder_environment_and_umask_of_the_service(hold: Hold) -> None:
    """Variables of the configuration and of `up`, the leased port, and the exit code of the
    command; what the caller's shell says today does not matter."""
    script = 'pwd; umask; echo "$COLOUR $DB_PASSWORD $INHERITED $PORT"; exit 7'
    done = hold.cli(
        "exec", "web", "--", "sh", "-c", script, expect=7, environ={"INHERITED": "other"}
    )
    folder, umask, words = done.stdout.splitlines()
    port = hold.service("web")["ports"]["port"]
    assert folder == os.path.realpath(hold.project / "below")
    assert int(umask, 8) == 0o027
    assert words == f"red hunter2hunter2 from-up {port}"
    assert hold.cli("exec", "bare", "--", "sh", "-c", "echo [$INHERITED]").stdout == "[]\n"
    assert hold.cli("exec", "idle", "--", "printenv", "A").stdout == "declared\n"


def test_exec_as_it_is_typed_for_compose(hold: Hold) -> None:
    """Without dashes, with further variables and another folder; standard input is passed on."""
    read, write = os.pipe()
    os.write(write, b"from a pipe\n")
    os.close(write)
    assert hold.cli("exec", "web", "cat", stdin=read).stdout == "from a pipe\n"
    os.close(read)
    told = hold.cli(
        "exec", "-e", "COLOUR=blue", "-w", "..", "web", "--", "sh", "-c", "pwd; echo $COLOUR"
    )
    assert told.stdout.split() == [os.path.realpath(hold.project), "blue"]
    assert "holdfast exec web -- bash" in hold.cli("exec", "web", expect=2).stderr
    missing = hold.cli("exec", "web", "--", "no-such-program", expect=1)
    assert "web cannot run no-such-program: No such file" in missing.stderr
    assert hold.cli("exec", "nobody", "--", "true", expect=3).stderr.startswith(
        "holdfast: no service"
    )


def test_exec_at_a_terminal(hold: Hold) -> None:
    """The program has the caller's terminal itself: a shell with job control, and its exit code."""
    person = Person(
        hold, "exec", "web", "--", "sh", "-c", "test -t 0 && read a && echo got $a; exit 5"
    )
    person.type(b"a line\n")
    person.see(b"got a line")
    assert person.exit_code() == 5


def test_nobody_but_the_owner_is_told_values(hold: Hold) -> None:
    """`reveal` is refused at every other door, and to a program that Holdfast supervises."""
    token = (hold.state / "admin.token").read_text().strip()
    answer = hold.ask("environment", service="web", caller={"token": token, "door": "rest"})
    values = {each["name"]: each["value"] for each in answer["variables"]}
    assert values["COLOUR"] is None
    assert values["PORT"] is not None
    script = f"{' '.join(hold.command('exec', 'web', '--', 'env'))}; echo code $?"
    done = hold.cli("run", "--wait", "--name", "inner", "--", "sh", "-c", script)
    assert "hunter2" not in done.stdout
    assert "code 5" in done.stdout


def test_env_shows_where_each_variable_comes_from(hold: Hold) -> None:
    """Secrets are hidden, also those that are inherited."""
    said = hold.cli("env", "web").stdout
    rows = {line.split()[0]: line for line in said.splitlines()}
    assert rows["COLOUR"].split() == ["COLOUR", "the", "configuration", "red"]
    assert rows["DB_PASSWORD"].endswith("[hidden]")
    assert "its port" in rows["PORT"]
    assert "INHERITED" not in rows
    whole = hold.cli("env", "web", "--all").stdout
    assert "from-up" in whole
    found = {each["name"]: each for each in hold.json("env", "web")["variables"]}
    assert (found["INHERITED"]["value"], found["INHERITED"]["source"]) == ("from-up", "up")
    for text in (said, whole, json.dumps(found)):
        assert "hunter2" not in text
        assert "inherited-secret" not in text


def test_send_types_a_line(hold: Hold) -> None:
    """Into a terminal or a pipe, with Enter; other services say what they lack."""
    hold.cli("send", "shell", "hello", "there")
    wait_for(lambda: "hello there" in hold.cli("logs", "shell", "--no-prefix").stdout)
    hold.cli("send", "reader", "one")
    hold.cli("send", "reader", "--no-enter", "two")
    hold.cli("send", "reader", "three")
    wait_for(lambda: hold.cli("logs", "reader", "--no-prefix").stdout.endswith("one\ntwothree\n"))
    told = hold.cli("send", "web", "x", expect=1).stderr
    assert "web has no open standard input" in told
    assert "`stdin: pipe`" in told


def test_run_wait_passes_standard_input_on(hold: Hold) -> None:
    """All of it, also more than is buffered, and its end."""
    done = subprocess.run(
        hold.command("run", "--wait", "--name", "counter", "--", "sh", "-c", "sleep 0.3; wc -c"),
        cwd=hold.project,
        env=hold.environ,
        input=b"x" * 3_000_000,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, b"3000000"), done
    # A caller that keeps its input open gets the exit code all the same.
    read, write = os.pipe()
    try:
        hold.cli(
            "run", "--wait", "--name", "quick", "--", "sh", "-c", "exit 3", stdin=read, expect=3
        )
    finally:
        os.close(read)
        os.close(write)


def test_run_wait_with_a_terminal_is_interactive(hold: Hold) -> None:
    """It is attached until it ends, and its exit code is passed on."""
    person = Person(
        hold,
        "run",
        "--wait",
        "--terminal",
        "--name",
        "talk",
        "--",
        "sh",
        "-c",
        "read a; echo got $a; exit 4",
    )
    person.see(b"attached to talk")
    person.type(b"word\r")
    person.see(b"got word")
    assert person.exit_code() == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_exec_runs_as_the_user_of_the_service() -> None:
    """With that user's groups."""
    with Hold() as hold:
        hold.folder.chmod(0o755)
        hold.project.chmod(0o755)
        hold.services(web=quick(user="nobody"))
        hold.up()
        done = hold.cli("exec", "web", "--", "id", "-u")
        assert int(done.stdout) == pwd.getpwnam("nobody").pw_uid
