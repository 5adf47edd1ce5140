"""A Holdfast on another machine, reached over a real sshd on loopback."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Hold, read_until, started, wait_for

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
SHELL = pwd.getpwuid(os.getuid()).pw_shell


def why_not() -> str | None:
    if SSHD is None or shutil.which("ssh") is None:
        return "openssh-server and openssh-client are not installed"
    if os.path.basename(SHELL) not in ("sh", "bash", "dash", "zsh"):
        return f"this user cannot log in: the shell is {SHELL}"
    return None


pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    """A Holdfast that runs, and an sshd that lets this user in; `ssh` here knows its key."""
    with Hold() as hold:
        folder = hold.folder / "ssh"
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)],
                check=True, timeout=60,
            )  # fmt: skip
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        programs = hold.folder / "bin"
        programs.mkdir()
        own = {name: hold.environ[name] for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
        own |= {"HOME": str(hold.folder), "HOLDFAST_TCP": "off", "HOLDFAST_HTTP": "off"}
        own["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path.endswith("src"))
        there = " ".join(f"{name}={shlex.quote(text)}" for name, text in own.items())
        script(programs / "holdfast", f"exec env {there} {sys.executable} -m holdfast")
        settings = folder / "config"
        settings.write_text(
            f"Host *\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking accept-new\n"
            "  LogLevel ERROR\n"
        )
        here = hold.folder / "here"
        here.mkdir()
        script(here / "ssh", f"exec {shutil.which('ssh')} -F {settings}")
        hold.environ["PATH"] = f"{here}{os.pathsep}{hold.environ['PATH']}"
        (folder / "sshd").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nSetEnv PATH={programs}:/usr/bin:/bin\n"
        )
        if os.getuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        assert SSHD is not None
        log = str(hold.folder / "sshd.log")
        with started([SSHD, "-D", "-E", log, "-f", str(folder / "sshd")]) as server:
            wait_for(lambda: answers(port) or server.poll() is not None, what="sshd")
            assert server.poll() is None, Path(log).read_text()
            hold.services(web=["sh", "-c", "echo hello from there; exec sleep 600"])
            hold.up()
            yield hold


def script(path: Path, line: str) -> None:
    path.write_text(f'#!/bin/sh\n{line} "$@"\n')
    path.chmod(0o755)


def answers(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def url_of(hold: Hold) -> str:
    return f"ssh://{pwd.getpwuid(os.getuid()).pw_name}@127.0.0.1{hold.project}"


def test_verbs_work_over_there(hold: Hold) -> None:
    """Answers, errors and exit codes are those of the other side, wherever one is here."""
    elsewhere = {"cwd": "/", "environ": {"XDG_STATE_HOME": "/nowhere", "XDG_RUNTIME_DIR": "/no"}}
    found = hold.json("--host", url_of(hold), "status", **elsewhere)
    assert found["services"]["web"]["status"] == "running"
    named = {"HOLDFAST_HOST": url_of(hold)}
    told = hold.cli("logs", "web", cwd="/", environ=named).stdout
    assert "hello from there" in told
    missing = hold.cli("--host", url_of(hold), "start", "nobody", expect=None, cwd="/")
    assert missing.returncode == hold.cli("start", "nobody", expect=None).returncode != 0
    assert "nobody" in missing.stderr
    done = hold.cli("--host", url_of(hold), "exec", "--", "echo", "it's; $HOME", cwd="/")
    assert "it's; $HOME" in done.stdout


def test_following_over_there(hold: Hold) -> None:
    """`logs -f` shows lines as they come."""
    line = hold.command("--host", url_of(hold), "logs", "-f", "web")
    with started(line, cwd="/", env=hold.environ) as following:
        read_until(following, b"hello from there")
        hold.cli("restart", "web")
        read_until(following, b"hello from there")
    # The other side learns that nobody reads any more when it writes.
    hold.cli("restart", "web")


def test_contexts(hold: Hold) -> None:
    """A name for a host, used from then on; `local` is here again."""
    hold.cli("context", "add", "box", url_of(hold))
    assert hold.json("--host", "box", "status", cwd="/")["services"]["web"]
    hold.cli("context", "use", "box")
    try:
        assert hold.json("status", cwd="/")["services"]["web"]
        assert "in use" in hold.cli("context", "ls").stdout
        file = hold.folder / ".config/holdfast/contexts.json"
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        hold.cli("context", "use", "local")
    hold.cli("context", "rm", "box")
    assert hold.json("context", "ls") == {"current": None, "contexts": {}}


def test_a_host_that_does_not_let_us_in(hold: Hold) -> None:
    """ssh tells why, with its own exit code."""
    done = hold.cli("--host", "ssh://nobody-at-all@127.0.0.1/tmp", "status", expect=255)
    assert "Permission denied" in done.stderr
