"""The keeper's own error messages, on its standard error (STATE/keeper.err).

Bounded, because a callback may fail for ever: the same message is written less and less often, and
a file that has grown too large is emptied. Must never raise, not even on a full disk.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from holdfast.system.private_files import open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

FILE_LIMIT = 1 << 20
_MOST_COUNTED = 64

_counts: dict[str, int] = {}


def install() -> None:
    """Write every exception that reaches the loop here from now on."""
    sys.excepthook = on_fault


def use(path: str) -> None:
    """Use this file as standard error from now on, if it can be opened."""
    try:
        fd = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, 2)
        os.close(fd)
    except OSError:
        return


def say(text: str) -> None:
    """Write one message. The same message is written again at its 2nd, 4th, 8th … time only."""
    if text not in _counts and len(_counts) >= _MOST_COUNTED:
        _counts.clear()
    count = _counts[text] = _counts.get(text, 0) + 1
    if count & (count - 1):
        return
    again = f" (for the {count}th time)" if count > 1 else ""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    _write(f"{now} holdfast keeper: {text}{again}\n".encode(errors="backslashreplace"))


def on_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Write an exception without the traceback module, which would stay in memory."""
    lines = ["Traceback (most recent call last):"]
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    say("\n".join([*lines, f"{kind.__name__}: {error}"]))


def _write(data: bytes) -> None:
    try:
        facts = os.fstat(2)
        if stat.S_ISREG(facts.st_mode) and facts.st_size > FILE_LIMIT:
            os.ftruncate(2, 0)
            os.lseek(2, 0, os.SEEK_SET)
        os.write(2, data)
    except OSError:
        return
