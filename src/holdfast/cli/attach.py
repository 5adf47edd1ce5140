"""`holdfast attach`: connects this terminal with the service's, until ctrl-p ctrl-q.

Output is read from the log as bytes; input and window size go to the supervisor. Whatever
happens, the terminal gets its settings back.
"""

from __future__ import annotations

import base64
import os
import re
import select
import signal
import sys
import time

from holdfast.cli.call import Call
from holdfast.cli.history import ended_how
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import screen
from holdfast.cli.terminal.follow import connect_again
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Chunk
from holdfast.logbook.reader import Reader, Walk
from holdfast.vocabulary.errors import Failed, HoldfastError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE_BYTES = 64 * 1024
FULL, FULL_SECONDS = "buffer_full", 0.05
DETACH = b"\x10\x11"
ALTERNATE_SCREEN = re.compile(rb"(\x1b\[\?(?:1049|1047|47))([hl])")
"""Switches to the screen of a program that fills it (h), and back (l)."""
RESET = (
    b"\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1l\x1b>"  # colours, cursor, wrapping, plain keys
    b"\x1b7\x1b[r\x1b8"  # the whole screen scrolls; the cursor stays where it is
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l"  # mouse, focus, pasting
)


@Verb(
    "attach",
    "Use a service's terminal",
    operands="SERVICE",
    least=1,
    most=1,
    commands=("status", "send_input", "resize", "watch"),
    about="Detach with ctrl-p ctrl-q; the service goes on.",
    examples=(("holdfast attach shell", "type into it, see what it prints"),),
)
def attach(call: Call) -> int:
    return attach_to(call, call.operands[0])


@Verb(
    "terminal",
    "Open a shell with a service's user, folder and environment",
    operands="SERVICE",
    least=1,
    most=1,
    options=(Option("-d --detach", "tell its name, and leave it for `attach`"),),
    commands=("open_terminal", "status", "send_input", "resize", "watch"),
    about=(
        "The shell is a service under a name of its own: it goes on after ctrl-p ctrl-q, is\n"
        "recorded, and is in the dashboard. Type `exit` to end it."
    ),
    examples=(("holdfast terminal web", "look around where web runs"),),
)
def terminal(call: Call) -> int:
    opened = call.ask("open_terminal", service=call.operands[0])
    if call.is_json:
        call.emit(opened)
        return 0
    if call.options.get("detach"):
        call.say(f"{opened['service']}: holdfast attach {opened['service']}")
        return 0
    return attach_to(call, opened["service"])


def attach_to(call: Call, service: str) -> int:
    """Connect this terminal with a service's."""
    now = call.ask("status", services=[service])["services"][service]
    check_attachable(service, now)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "attach needs a terminal on both sides",
            f"to only look: holdfast logs -f {service}",
        )
    how = Attachment(call, service).stay()
    sys.stdout.write("\r\n")
    if how == "detached":
        call.say(f"detached; {service} goes on")
        return 0
    now = call.ask("status", services=[service])["services"][service]
    ended = ended_how(now["exit_code"], now["signal"], unknown=now["exit_code"] is None)
    call.say(f"{service}: {ended}")
    return 0


@Verb(
    "send",
    "Type a line into a service",
    operands="SERVICE [TEXT…]",
    least=1,
    most=None,
    options=(
        Option("--no-enter", "the text alone, without pressing Enter"),
        Option("--eof", "afterwards, end its standard input"),
    ),
    commands=("status", "send_input"),
    about=(
        "It goes to the service's terminal (`terminal: true`) or standard input\n"
        "(`stdin: pipe`). Several words are one line. `-` sends standard input as it is."
    ),
    examples=(
        ("holdfast send console reload", "type «reload» and Enter"),
        ("holdfast send shell --no-enter q", "one key"),
        ("holdfast send importer --eof - < data.csv", "a file, and then the end of input"),
    ),
)
def send(call: Call) -> int:
    service, *words = call.operands
    is_ending = bool(call.options.get("eof"))
    if not words and not is_ending and call.options.get("no_enter"):
        raise UsageError("there is nothing to send", "holdfast send SERVICE TEXT")
    if words == ["-"]:
        while data := os.read(sys.stdin.fileno(), PIECE_BYTES):
            send_bytes(call, service, data)
    elif words or not is_ending:
        line = os.fsencode(" ".join(words))
        if not call.options.get("no_enter"):
            now = call.ask("status", services=[service])["services"][service]
            line += b"\r" if now.get("terminal") else b"\n"
        send_bytes(call, service, line)
    if is_ending:
        call.ask("send_input", service=service, eof=True)
    if call.is_json:
        call.emit({"service": service, "sent": True})
    return 0


def send_bytes(call: Call, service: str, data: bytes) -> None:
    """Write to a service; wait while it does not read what was written before."""
    text = base64.b64encode(data).decode()
    while True:
        try:
            call.ask("send_input", service=service, data=text)
        except HoldfastError as error:
            if error.details.get("keeper_code") != FULL:
                raise
            time.sleep(FULL_SECONDS)  # the keeper does not tell when there is room
        else:
            return


def check_attachable(service: str, now: dict[str, Any]) -> None:
    if not now.get("terminal"):
        raise UsageError(
            f"{service} has no terminal",
            f"give it `terminal: true` (or `holdfast run --terminal`), or look at its output: "
            f"holdfast logs -f {service}",
        )
    if now.get("pid") is None:
        is_now = screen.state_phrase(now["status"])
        raise Failed(f"{service} does not run; it is {is_now}", f"holdfast start {service}")


class DetachKeys:
    """Finds ctrl-p ctrl-q in the input; holds a ctrl-p back until the next key."""

    def __init__(self) -> None:
        self._is_held = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Returns what to send to the service, and whether to detach."""
        if self._is_held:
            data = DETACH[:1] + data
        self._is_held = False
        before, found, _ = data.partition(DETACH)
        if found:
            return before, True
        if data.endswith(DETACH[:1]):
            self._is_held = True
            return data[:-1], False
        return data, False


class Attachment:
    """One attached terminal."""

    def __init__(self, call: Call, service: str) -> None:
        self._call = call
        self._service = service
        self._keys = DetachKeys()
        self._leave_screen = b""
        self._is_resized = True
        self._walk = self._start()

    def stay(self) -> str:
        """Connect the terminals; returns «detached» or «ended»."""
        import termios
        import tty

        stdin = sys.stdin.fileno()
        saved = termios.tcgetattr(stdin)
        wake, wake_end = os.pipe()
        for fd in (wake, wake_end):
            os.set_blocking(fd, False)
        before_wake = signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        before = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, self._window_changed),
            signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
            signal.SIGHUP: signal.signal(signal.SIGHUP, _leave),
        }
        try:
            # TCSADRAIN keeps what was typed before; it is for the service, too.
            tty.setraw(stdin, termios.TCSADRAIN)
            text = f"attached to {self._service}; detach with ctrl-p ctrl-q"
            self._write(self._call.paint(text, "dim").encode() + b"\r\n")
            return self._loop(stdin, wake)
        finally:
            termios.tcsetattr(stdin, termios.TCSADRAIN, saved)
            self._write(RESET + self._leave_screen)
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before_wake)
            os.close(wake)
            os.close(wake_end)
            self._walk.close()

    def _loop(self, stdin: int, wake: int) -> str:
        connection = self._call.connect()
        while True:
            try:
                connection.send("watch", services=[self._service])
                self._is_resized = True
                while True:
                    if end := self._step(connection, stdin, wake):
                        return end
            except ConnectionLost:
                connection = connect_again(self._call)

    def _step(self, connection: Connection, stdin: int, wake: int) -> str | None:
        self._show()
        if self._is_resized:
            self._is_resized = False
            cols, rows = terminal_size()
            connection.send("resize", service=self._service, cols=cols, rows=rows)
        ready = [connection.fileno()]
        if not connection.has_frame:
            ready = select.select([connection.fileno(), stdin, wake], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
        if stdin in ready:
            typed, is_detached = self._keys.feed(os.read(stdin, 65536))
            if typed:
                data = base64.b64encode(typed).decode()
                connection.send("send_input", service=self._service, data=data)
            if is_detached:
                return "detached"
        if connection.fileno() in ready:
            frame = connection.receive()
            if frame and (frame.get("item") or {}).get("exited"):
                self._show()
                return "ended"
        return None

    def _start(self) -> Walk:
        """Begin with the last screenful of the current run."""
        reader = Reader(self._call.places.logs, self._service)
        start = reader.tail(terminal_size()[1], "out")
        if (span := reader.run(-1)) is not None:
            start = Cursor(*map(max, start, span.start))
        return reader.chunks(start)

    def _show(self) -> None:
        for item in self._walk:
            if isinstance(item, Chunk):
                for screen, switch in ALTERNATE_SCREEN.findall(item.data):
                    self._leave_screen = screen + b"l" if switch == b"h" else b""
                self._write(item.data)

    def _write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def _window_changed(self, *_: object) -> None:
        self._is_resized = True


def terminal_size() -> tuple[int, int]:
    """Columns and rows; 80 × 24 if the terminal does not know its size."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns or 80, size.lines or 24


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)
