"""Pseudo-terminals: opening a pair and telling it its size.

The keeper keeps the master end; the slave belongs to the run and is closed here as soon
as the run has it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios

DEFAULT_COLS = 80
DEFAULT_ROWS = 24
DEFAULT_TERM = "xterm-color"


def open_pair(cols: int, rows: int) -> tuple[int, int]:
    """Master (non-blocking) and slave of a fresh terminal of this size."""
    master, slave = os.openpty()
    try:
        os.set_blocking(master, False)
        resize(master, cols, rows)
    except OSError:
        os.close(master)
        os.close(slave)
        raise
    return master, slave


def open_transit() -> int:
    """Both ends of a pipe in one descriptor: bytes wait in it for whoever holds it."""
    reader, writer = os.pipe()
    try:
        return os.open(f"/proc/self/fd/{reader}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(reader)
        os.close(writer)


def resize(master: int, cols: int, rows: int) -> None:
    """Set the size; the kernel sends SIGWINCH to the foreground group."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def end_of_input(master: int) -> bytes:
    """The character that this terminal reads as end of file."""
    try:
        character = termios.tcgetattr(master)[6][termios.VEOF]
    except termios.error:
        return b"\x04"
    return character if isinstance(character, bytes) else bytes([character])
