"""Landlock: the kernel confines a process, and all that it starts, to certain folders.

The rule is tied to the opened folders, not to their names, so renames and links change nothing.
Linux 5.13 and later; elsewhere `version` is 0. Standard library only.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from ctypes import CDLL, _NamedFuncPointer

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_OF_THE_FIRST = (1 << 13) - 1
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


@cache
def version() -> int:
    """Return the version that the kernel offers; 0 if there is none, or if it is switched off. A
    process that asks before a fork saves its children from importing what they need."""
    if sys.platform != "linux":
        return 0
    found = _syscall()(_CREATE_RULESET, None, 0, _ASK_VERSION)
    return max(0, int(found))


def restrict(read: Iterable[str], write: Iterable[str]) -> None:
    """Allow this process to read and execute beneath `read`, and to read and change, but not
    execute, beneath `write`, and nothing else. Folders that do not exist give no rights. It cannot
    be undone. After an OSError, nothing is sure."""
    import ctypes

    handled = _ALL_OF_THE_FIRST
    number = version()
    handled |= _REFER if number >= 2 else 0
    handled |= _TRUNCATE if number >= 3 else 0
    call = _syscall()
    asked = ctypes.create_string_buffer(handled.to_bytes(8, sys.byteorder), 8)
    ruleset = _checked(call(_CREATE_RULESET, asked, 8, 0))
    try:
        for paths, rights in ((read, _READ), (write, handled & ~_EXECUTE)):
            for path in paths:
                _allow(call, ruleset, path, rights)
        _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(call(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(call: _NamedFuncPointer, ruleset: int, path: str, rights: int) -> None:
    import ctypes

    try:
        folder = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    except OSError:
        return  # it does not exist, or cannot be reached
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= _OF_FILES
        rule = rights.to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
        _checked(call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, 12), 0))
    finally:
        os.close(folder)


def _checked(answer: int) -> int:
    if answer < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, f"confining it: {os.strerror(number)}")
    return answer


def _syscall() -> _NamedFuncPointer:
    import ctypes

    call = _libc().syscall
    call.restype = ctypes.c_long
    return call


@cache
def _libc() -> CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
