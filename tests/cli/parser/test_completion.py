"""Completion: scripts that shells accept, words that fit the place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.parser.completion import SCRIPTS
from tests.cli.fake_daemon import FakeDaemon, answers, service
from tests.cli.person import AtTerminal

SHELLS = {
    "bash": ("bash --norc --noprofile -i", 'eval "$(holdfast completion bash)"'),
    "zsh": (
        "zsh -f -i",
        'autoload -Uz compinit; compinit -D -u; eval "$(holdfast completion zsh)"',
    ),
    "fish": ("fish", "holdfast completion fish | source"),
}
"""How each is started without anything of the user's, and completion set up as its help says."""
PROGRAM = """\
#!/bin/sh
patient='from holdfast.cli.parser import completion as c; c.ANSWER_SECONDS = 60
from holdfast.cli.main import main; main()'
case $1 in __complete|completion) exec {python} -c "$patient" "$@" ;; esac
printf 'got:'
printf ' [%s]' "$@"
echo
"""


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_parse(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each script is valid for its shell."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n"], input=script, text=True, check=True, capture_output=True)


def test_bash_completes(daemon: FakeDaemon, project: Path) -> None:
    """In a real bash, the words of `__complete` become the completions."""
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    script = (
        'holdfast() { printf "web\\trunning\\nworker\\tfailed\\n"; }\n'
        + SCRIPTS["bash"]
        + "COMP_WORDS=(holdfast stop w); COMP_CWORD=2; _holdfast\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], text=True, check=True, capture_output=True)
    assert done.stdout.split() == ["web", "worker"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_person_who_presses_tab(daemon: FakeDaemon, project: Path, shell: str) -> None:
    """Verbs, names with @ and :, values behind =, and files, in the shell itself."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    status = answers()["status"]
    assert isinstance(status, dict)
    names = ("api-server", "web@1")
    daemon.answers["status"] = {
        "supervisor": {**status["supervisor"], "selectors": ["group:all-of"]},
        "services": {name: service() for name in names},
    }
    program = project / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o700)
    quiet = {"HOME": str(project), "TERM": "dumb", "INPUTRC": os.devnull, "ZDOTDIR": str(project)}
    path = f"{program.parent}:{os.environ['PATH']}"
    start, setup = SHELLS[shell]
    at_shell = AtTerminal(start.split(), project, {**os.environ, **quiet, "PATH": path})
    at_shell.type(setup.encode() + b"; holdfast set up\r")
    at_shell.see(b"got: [set] [up]", 60.0)
    for typed, expected in (
        (b"holdfast sto\tweb@\tgroup:a\tapi\t", b"[stop] [web@1] [group:all-of] [api-server]"),
        (b"holdfast logs --stream=e\t--color a\tl\t", b"[logs] [--stream=err] [--color] [always]"),
        (b"holdfast wait a\t--for lo\tx", b"[wait] [api-server] [--for] [log:x]"),
        (b"holdfast --config=hol\t-c hol\t", b"[--config=holdfast.yaml] [-c] [holdfast.yaml]"),
    ):
        at_shell.type(typed + b"\r")
        at_shell.see(b"got: " + expected)
    at_shell.type(b"exit\r")
    assert at_shell.exit_code() == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], {"status", "start"}),
        (["logs", "--st"], {"--stream", "--state-dir"}),
        (["logs", "--stream", ""], {"out", "err"}),
        (["logs", "--stream="], {"--stream=out", "--stream=err"}),
        (["logs", "--grep=e"], set()),
        (["adopt", "--p"], {"--pid", "--pidfile", "--port"}),
        (["--color", "a"], {"auto", "always"}),
        (["stop", ""], {"web"}),
        (["signal", "US"], {"USR1", "USR2"}),
        (["signal", "USR1", ""], {"web"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["wait", "web", "--for", "e"], {"exited"}),
        (["token", ""], {"create", "ls", "revoke", "rotate", "path"}),
        (["workflow", ""], {"run", "ls"}),
        (["mcp", "config", "cl"], {"claude", "claude-desktop"}),
        (["run", "--", "l"], set()),
        (["nonsense", ""], set()),
    ],
)
def test_words_fit_the_place(
    daemon: FakeDaemon,
    words: list[str],
    expected: set[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Verbs, options, values and services are offered where they may stand."""
    assert main(["__complete", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split("\t")[0] for line in lines) == sorted(expected)


def test_a_silent_daemon_is_not_waited_for(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the daemon does not answer at once, names come from the log files."""
    is_over = threading.Event()
    daemon.answers["status"] = lambda _: is_over.wait(60)
    Path(daemon.places.logs, "quiet.000001.idx").touch()
    began = time.monotonic()
    assert main(["__complete", "stop", ""]) == 0
    is_over.set()
    assert time.monotonic() - began < 30
    assert capsys.readouterr().out == "quiet\n"


def test_names_of_machines(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts are completed after `--host` and `context use`, and verbs after `help --man`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    assert main(["context", "add", "live", "ssh://me@box/srv/shop"]) == 0
    capsys.readouterr()
    for words in (["--host", "l"], ["context", "use", "l"]):
        assert main(["__complete", *words]) == 0
        told = capsys.readouterr().out
        assert told == "local\tthis machine\nlive\tssh://me@box/srv/shop\n"
    assert main(["__complete", "help", "--man", "rolling"]) == 0
    assert capsys.readouterr().out.startswith("rolling-restart\t")
