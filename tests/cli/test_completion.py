"""Completion: scripts that shells accept, words that fit the place."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from holdfast.cli.completion import SCRIPTS
from holdfast.cli.main import main
from tests.cli.fake_daemon import FakeDaemon


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], {"status", "start"}),
        (["logs", "--st"], {"--stream", "--state-dir"}),
        (["logs", "--stream", ""], {"out", "err"}),
        (["adopt", "--p"], {"--pid", "--pidfile", "--port"}),
        (["--color", "a"], {"auto", "always"}),
        (["stop", ""], {"web"}),
        (["signal", "US"], {"USR1", "USR2"}),
        (["signal", "USR1", ""], {"web"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["wait", "web", "--for", "e"], {"exited"}),
        (["token", ""], {"create", "ls", "revoke"}),
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
