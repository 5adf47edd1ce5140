"""The table of verbs against the vocabulary: what can be typed, and what is then asked."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import cli
from holdfast.cli.call import READS, WITH_KEY
from holdfast.cli.main import main
from holdfast.cli.parser.help import help_of, overview
from holdfast.cli.parser.verbs import FAMILIES, GLOBAL_OPTIONS, every_verb
from holdfast.cli.reference import EXIT_CODES
from holdfast.vocabulary.command import Door, Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import EXIT_CODES as CODES_OF_ERRORS
from tests.cli.fake_daemon import FakeDaemon, outcome, service

LINES = [
    (["status"], "status", {"services": []}),
    (["status", "web", "--json"], "status", {"services": ["web"]}),
    (["start", "web"], "start", {"services": ["web"], "wait": True}),
    (["start", "--no-wait"], "start", {"services": [], "wait": False}),
    (["stop", "web", "--grace", "2m"], "stop", {"services": ["web"], "grace": 120.0}),
    (["stop", "web", "--grace=0"], "stop", {"services": ["web"], "grace": 0.0}),
    (["restart", "web"], "restart", {"services": ["web"], "wait": True}),
    (
        ["restart", "web", "-e", "A=1", "--env", "B=x=y", "--args", "-p", "80"],
        "restart",
        {
            "services": ["web"], "wait": True, "args": ["-p", "80"],
            "env_vars": {"A": "1", "B": "x=y"},
        },
    ),
    (["pause", "web"], "pause", {"services": ["web"]}),
    (["resume", "web"], "resume", {"services": ["web"]}),
    (["signal", "HUP", "web", "db"], "signal", {"signal": "HUP", "services": ["web", "db"]}),
    (["signal", "web", "KILL"], "signal", {"signal": "KILL", "services": ["web"]}),
    (["signal", "hup", "web"], "signal", {"signal": "hup", "services": ["web"]}),
    (
        ["signal", "--to", "tree", "USR1", "web"],
        "signal",
        {"signal": "USR1", "services": ["web"], "to": "tree"},
    ),
    (["ps"], "ps", {"services": []}),
    (
        ["events", "-n5", "--since", "3"],
        "events",
        {"services": [], "limit": 1000, "since": 3},
    ),
    (
        ["wait", "web", "--for", "log:ready", "--timeout", "500ms"],
        "wait",
        {"service": "web", "condition": "log:ready", "timeout": 0.5},
    ),
    (["runs", "web"], "runs", {"service": "web", "limit": 20}),
    (["rm", "web", "--keep-logs"], "remove", {"services": ["web"], "keep_logs": True}),
    (["prune", "--older-than", "7d"], "prune", {"services": [], "older_than": 604800.0}),
    (["adopt", "--port", "80", "web"], "adopt", {"service": "web", "port": 80}),
    (["adopt", "web", "--pid=7"], "adopt", {"service": "web", "pid": 7}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "command", "fields"), LINES)
def test_a_line_becomes_a_command(
    daemon: FakeDaemon, words: list[str], command: str, fields: dict[str, Any]
) -> None:
    """What is typed arrives as a command that the vocabulary accepts, with these fields."""
    assert main(words) == 0
    assert daemon.last(command) == fields


def test_run_sends_the_command_as_it_is(
    daemon: FakeDaemon, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything after `--` belongs to the command, options included."""
    monkeypatch.setenv("COLOUR", "green")
    assert main(["run", "--name", "x", "--restart", "always", "--", "ls", "--json", "-f"]) == 0
    asked = daemon.last("run")
    assert asked["argv"] == ["ls", "--json", "-f"]
    assert (asked["service"], asked["restart_policy"]) == ("x", "always")
    assert asked["working_dir"] == str(project.resolve())
    assert asked["environment"]["COLOUR"] == "green"
    assert main(["run", "--terminal", "sh", "-c", "exit"]) == 0
    assert daemon.last("run")["argv"] == ["sh", "-c", "exit"]
    assert daemon.last("run")["terminal"] is True


def test_a_run_is_not_done_twice(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that dies may have begun it; where the keeper stays, it is not asked again."""
    monkeypatch.setattr("holdfast.cli.down.LAST_STEPS_SECONDS", 0.05)

    def die(_: dict[str, Any]) -> Any:
        daemon.hang_up()
        return {}

    daemon.answers["run"] = die
    with open(os.path.join(daemon.places.state, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["run", "--", "true"]) == 4
    assert daemon.commands().count("run") == 1
    assert "went away before it answered" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "has_key"), [("ps", False), ("prune", True)])
def test_a_request_is_asked_again_after_a_lost_connection(
    daemon: FakeDaemon, command: str, has_key: bool
) -> None:
    """A reading request is repeated as it is, a change under the key that it had before."""
    answer = daemon.answers[command]

    def die_once(_: dict[str, Any]) -> Any:
        daemon.answers[command] = answer
        daemon.hang_up()
        return {}

    daemon.answers[command] = die_once
    assert main([command]) == 0
    frames = zip(daemon.commands(), daemon.keys, strict=True)
    first, second = [key for asked, key in frames if asked == command]
    assert first == second
    assert (first is not None) is has_key


def test_up_sends_configuration_and_settings(daemon: FakeDaemon, project: Path) -> None:
    """up names the configuration it found and passes the caller's settings on."""
    assert main(["up", "-d", "web", "--port", "9000", "--log-level", "debug"]) == 0
    asked = daemon.last("up")
    assert asked["config"] == str(project.resolve() / "holdfast.yaml")
    assert asked["services"] == ["web"]
    assert asked["settings"] == {"port": "9000", "log_level": "debug"}
    assert asked["wait"] is True


def test_every_verb_that_asks_is_in_the_vocabulary() -> None:
    """The commands that a verb may send all exist."""
    assert {command for verb in every_verb() for command in verb.commands} <= set(COMMANDS)


def test_every_command_for_people_has_a_verb() -> None:
    """No command of the vocabulary is out of reach from the command line."""
    asked = {command for verb in every_verb() for command in verb.commands}
    for_people = {name for name, command in COMMANDS.items() if Door.CLI in command.doors}
    # `logs` reads the files itself; the gate alone is granted the reading of them. A session is
    # held and renewed by the program whose it is. Preferences are what the dashboard remembers. A
    # person waits for an approval, and takes the request back by Ctrl-C. `mcp config` tells what
    # `assistant_setups` does, also where nothing runs. Assistants delegate; people
    # start an agent and prompt it.
    not_typed = {"hello", "logs", "open_output", "hold_session", "renew_session"}
    assert for_people - asked == not_typed | {
        *(
            "preferences",
            "set_preferences",
            "get_approval",
            "withdraw",
            "assistant_setups",
            "delegate",
        ),
    }


@pytest.mark.parametrize("verb", every_verb(), ids=lambda verb: verb.name)
def test_help_of_every_verb_has_examples(verb: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`VERB --help` shows usage, every option, and an example that begins with holdfast."""
    assert main([verb.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown == help_of(verb)
    assert all(option.flags[-1] in shown for option in verb.options)
    assert all("holdfast" in command and why for command, why in verb.examples)
    assert verb.name in overview()


def test_a_flag_takes_a_value_everywhere_or_nowhere() -> None:
    """Options may stand before the verb, so their form cannot depend on it."""
    forms: dict[str, bool] = {}
    for option in [*GLOBAL_OPTIONS, *(o for verb in every_verb() for o in verb.options)]:
        for flag in option.flags:
            assert forms.setdefault(flag, option.takes_value) == option.takes_value, flag


def test_exit_codes_are_documented() -> None:
    """Every exit code that an error can have is on the reference page."""
    assert set(CODES_OF_ERRORS.values()) <= {code for code, _, _ in EXIT_CODES}


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "status", "web"],
        ["status", "--json", "web"],
        ["status", "web", "--json"],
    ],
)
def test_options_stand_anywhere(
    daemon: FakeDaemon, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Options work before and after the verb and its operands."""
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["services"]["web"]["status"] == "running"


def test_verb_options_before_the_verb(daemon: FakeDaemon) -> None:
    """Even an option of the verb may come first."""
    assert main(["--timeout", "3s", "wait", "web"]) == 0
    assert daemon.last("wait")["timeout"] == 3.0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["statsu"], 2, 'did you mean "status"?'),
        (["logs", "--tial", "3"], 2, "did you mean --tail?"),
        (["start", "--foo"], 2, "has no option --foo\n"),
        (["events", "--kind", "x"], 2, "has no option --kind\n"),
        (["stop", "--grace", "soon"], 2, "not a duration"),
        (["stat"], 2, 'did you mean "status"?'),
        (["events", "--since", "x"], 2, "not a time"),
        (["logs", "-n", "-1"], 2, "a whole number"),
        (["runs", "web", "--tail", "x"], 2, "a whole number"),
        (["--color", "red", "status"], 2, "auto, always, never"),
        (["pause"], 2, "needs SERVICE…"),
        (["wait", "a", "b"], 2, "unexpected b"),
        (["logs", "--since"], 2, "--since needs TIME"),
        (["logs", "--raw", "--timestamps"], 2, "leave one of them out"),
        (["logs", "--raw", "--grep", "x"], 2, "--raw shows bytes"),
        (["status", "--json=yes"], 2, "takes no value"),
        (["run", "echo hi | wc"], 2, "holdfast run -- sh -c 'echo hi | wc'"),
        (["up", "-c", "/"], 7, "/ is a folder"),
        (["adopt", "web"], 2, "--pid"),
        (["adopt", "me", "--pid", str(os.getppid())], 2, "your own shell"),
        (["restart", "--args", "x"], 2, "one service"),
        (["-C", "/nowhere/at/all", "status"], 2, "no such folder"),
        (["completion", "tcsh"], 2, "bash, zsh or fish"),
        (["signal", "web", "USR9"], 2, 'neither "web" nor "USR9" is a signal'),
    ],
)
def test_usage_errors_name_the_next_step(
    project: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake on the line is exit code 2 and says what to write instead."""
    assert main(words) == code
    err = capsys.readouterr().err
    assert err.startswith("holdfast: ")
    assert said in err


def test_events_are_chosen_by_time(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """`--since` takes a time as `logs` does; what is older is read and not told."""
    old = {"seq": 7, "time": 1.0, "kind": "exit", "service": "web", "data": {"code": 1}}
    new = {**old, "seq": 8, "time": time.time(), "data": {"code": 2}}
    daemon.answers["events"] = {"events": [old, new], "last": 8}
    assert main(["events", "--since", "10m"]) == 0
    assert daemon.last("events")["since"] == 0
    out = capsys.readouterr().out
    assert "exit 2" in out
    assert "exit 1" not in out


def test_no_events_are_said(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """Silence would look like an answer about a service that there is."""
    daemon.answers["events"] = {"events": [], "last": 8}
    assert main(["events", "wbe"]) == 0
    assert "no events of wbe" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "told"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_prune_counts(
    daemon: FakeDaemon, count: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was deleted is told in words that fit."""
    daemon.answers["prune"] = {"deleted_bytes": 0, "deleted_runs": count, "services": []}
    assert main(["prune"]) == 0
    assert capsys.readouterr().out == f"deleted {told} and 0 B of logs\n"


def test_an_error_in_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json an error is one object on standard output, and nothing else is said."""
    assert main(["status", "--json"]) == 4
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert (error["code"], error["exit_code"]) == ("no_daemon", 4)
    assert "holdfast up" in error["hint"]
    assert said.err == ""


def test_a_failed_outcome_is_exit_1(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """When a service could not be started, its reason and last lines are shown."""
    daemon.answers["start"] = outcome(
        "failed", pid=None, reason="exit 1 within 1 s", last_lines=["boom"]
    )
    assert main(["start", "web"]) == 1
    shown = capsys.readouterr().out
    assert "web: failed: exit 1 within 1 s" in shown
    assert "| boom" in shown
    assert "holdfast logs web" in shown


def test_wait_in_vain_is_exit_6(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """A condition that is not met in time is a timeout that tells the state."""
    answer = {"service": "web", "met": False, "status": "backoff", "seconds": 30.001}
    daemon.answers["wait"] = answer
    assert main(["wait", "web"]) == 6
    assert "it is in backoff" in capsys.readouterr().err


def test_wait_for_what_cannot_come_is_exit_1(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service that failed for good is no timeout: nobody waited in vain."""
    answer = {"service": "web", "met": False, "status": "failed", "seconds": 0.1}
    daemon.answers["wait"] = answer
    assert main(["wait", "web"]) == 1
    assert "web will not be running: it is failed" in capsys.readouterr().err


def test_bare_holdfast_without_configuration_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a configuration, bare `holdfast` shows what it can do."""
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    assert capsys.readouterr().out == overview()


def test_attach_refuses_a_service_without_terminal(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """attach says how a service gets a terminal."""
    assert main(["attach", "web"]) == 2
    assert "terminal: true" in capsys.readouterr().err
    daemon.answers["status"] = {"services": {"web": service("stopped", terminal=True)}}
    assert main(["attach", "web"]) == 1
    assert "holdfast start web" in capsys.readouterr().err


def test_the_contents_and_the_rows_agree() -> None:
    """Every row is in the contents with its own module, and the contents name nothing else."""
    package = Path(cli.__path__[0])
    rows: dict[str, str] = {}
    for path in package.rglob("*.py"):
        family = path.relative_to(package).with_suffix("").as_posix().replace("/", ".")
        for name in re.findall(r'^@Verb\(\s*"([^"]+)"', path.read_text(), re.MULTILINE):
            assert rows.setdefault(name, family) == family, name
    assert rows == FAMILIES
    assert [verb.name for verb in every_verb()] == list(FAMILIES)


def test_a_verb_loads_its_own_family_only() -> None:
    """`status` does not pay for the other verbs."""
    code = (
        "import sys\n"
        "from holdfast.cli.parser.verbs import FAMILIES, verb_of\n"
        "assert verb_of('status') is not None\n"
        "families = {f'holdfast.cli.{family}' for family in FAMILIES.values()}\n"
        "print(*families & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["holdfast.cli.status"]


def test_help_needs_nothing_that_only_unix_has() -> None:
    """On Windows nothing can be supervised, but help and the reason can be read."""
    code = (
        "import sys\n"
        "for name in ('fcntl', 'grp', 'pwd', 'resource', 'termios', 'tty'):\n"
        "    sys.modules[name] = None\n"
        "from holdfast.cli.main import main\n"
        "sys.exit(main(['help']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, overview()), done.stderr


def test_what_is_asked_again_is_what_the_commands_say() -> None:
    """After a lost connection a reading command is asked again as it is. A change is asked again
    under a key, so that the supervisor decides by `repeatable` whether to do it again."""
    asked = {command for verb in every_verb() for command in verb.commands} | {"hello"}
    commands = {name: COMMANDS[name] for name in asked}
    assert {name for name, command in commands.items() if command.effect is Effect.READS} == READS
    # `unlock` is not repeatable: a second one would end a lockdown that somebody began since.
    # Under its key it is done once or refused.
    repeatable = {name for name, command in commands.items() if command.repeatable}
    assert repeatable | {"unlock"} == WITH_KEY
