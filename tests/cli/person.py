"""Somebody at a terminal who uses the command line."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import termios
import time
from collections.abc import Mapping

from tests.harness import Hold, wait_for


class AtTerminal:
    """Somebody at a terminal, in which a program runs."""

    def __init__(
        self, command: list[str], folder: str | os.PathLike[str], environ: Mapping[str, str]
    ) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environ)
        self.seen = b""
        self.modes = termios.tcgetattr(self.fd)

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def see(self, wanted: bytes, seconds: float = 60.0) -> None:
        """Wait for this on the screen, from here on."""
        deadline = time.monotonic() + seconds
        while wanted not in self.seen:
            ready = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, (wanted, self.seen)
            try:
                piece = os.read(self.fd, 65536)
            except OSError:
                piece = b""
            assert piece, (wanted, self.seen)
            self.seen += piece
        self.seen = self.seen.partition(wanted)[2]

    def exit_code(self) -> int:
        try:
            ended = wait_for(lambda: (it := os.waitpid(self.pid, os.WNOHANG))[0] and it)
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise
        return os.waitstatus_to_exitcode(ended[1])

    def is_given_back(self) -> bool:
        """Whether the terminal is as it was."""
        return termios.tcgetattr(self.fd)[:4] == self.modes[:4]


class Person(AtTerminal):
    """Somebody who uses a verb there."""

    def __init__(self, hold: Hold, *words: str, through: str | None = None) -> None:
        command = hold.command(*words)
        if through is not None:
            command = ["/bin/sh", "-c", f"{shlex.join(command)} | {through}"]
        super().__init__(command, hold.project, hold.environ)
