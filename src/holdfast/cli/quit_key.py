"""The key q of who looks at a screen: read without Enter, and never echoed.

Whatever happens, the terminal is given back as it was. One that is not ours to read from, in
the background or at another end of a pipe, is left alone.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.cli.terminal.signals import Patience, heed_sigterm, patience


@contextmanager
def quit_key(*, is_sought: bool) -> Iterator[Callable[[float], bool]]:
    """Waits so many seconds, or until the key is typed: then it answers true."""
    if not is_sought or not _is_ours(sys.stdin.fileno()):
        yield _sleep
        return
    import termios
    import tty

    stdin = sys.stdin.fileno()
    saved = termios.tcgetattr(stdin)
    heed_sigterm()
    try:
        tty.setcbreak(stdin, termios.TCSADRAIN)
        with patience() as patient:
            yield lambda seconds: _is_typed(patient, stdin, time.monotonic() + seconds)
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, saved)


def _is_ours(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _is_typed(patient: Patience, stdin: int, deadline: float) -> bool:
    while True:
        left = max(0.0, deadline - time.monotonic())
        if patient.is_readable(stdin, left):
            typed = os.read(stdin, 4096)
            if not typed or b"q" in typed or b"Q" in typed:
                return True
        elif not left:
            return False
