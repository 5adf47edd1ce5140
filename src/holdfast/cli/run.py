"""`holdfast run`: supervise a command. With --wait it stands for the command until that ends:
the same output, the same signals, the same exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading

from holdfast.cli.attach import PIECE_BYTES, Attachment, send_bytes
from holdfast.cli.call import Call
from holdfast.cli.parser.arguments import ParsedArguments
from holdfast.cli.parser.verbs import NO_WAIT, Option, Verb
from holdfast.cli.services import report
from holdfast.cli.terminal.follow import connect_again, learn_secrets
from holdfast.cli.terminal.output import LogFollower, Printer, Style, log_ends
from holdfast.cli.terminal.screen import PLAIN
from holdfast.cli.terminal.signals import interruptible, reap_orphans, treat_sigterm_as_interrupt
from holdfast.cli.up import environment_of, launch
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.client.discovery import connect
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Chunk
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.errors import Failed, HoldfastError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OVER_STATES = frozenset({"exited", "failed", "stopped"})


@Verb(
    "run",
    "Supervise a command, with no configuration at all",
    operands="-- COMMAND…",
    least=1,
    most=None,
    options=(
        Option("--name", "the service's name; the command's by default", "NAME"),
        Option("--wait", "pass input and output on until it ends, and exit as it did; no restarts"),
        Option("--terminal", "give it a terminal, for `holdfast attach`"),
        Option(
            "--restart",
            "when to start it again; on_failure by default, with --wait never",
            choices=("always", "on_failure", "never"),
        ),
        Option(
            "--delay", "start it once, after this time, as a job of the queue", "TIME", "duration"
        ),
        Option("--stdin", "keep its standard input open, for `holdfast send` (no end of file)"),
        NO_WAIT,
    ),
    commands=("run", "add_job", "watch", "status", "wait", "send_input"),
    examples=(
        ("holdfast run -- python -m http.server", "keep a web server running"),
        ("holdfast run --name db --restart always -- postgres -D data", "under another name"),
        ("holdfast run --delay 10m -- ./cleanup.sh", "once, in ten minutes; see `holdfast job`"),
        ("holdfast run --wait -- make test", "a task: follow it and pass its exit code on"),
        ("holdfast run --wait -- ./import.py < data.csv", "with standard input"),
    ),
    is_command_line=True,
)
def run(call: Call) -> int:
    _check_words(call)
    if "delay" in call.options:
        return _run_later(call)
    is_waiting = bool(call.options.get("wait"))
    if is_waiting:
        treat_sigterm_as_interrupt()
    fields: dict[str, Any] = {
        "argv": call.operands,
        "working_dir": os.path.realpath(call.folder),
        "environment": environment_of(call),
        "wait": not is_waiting and not call.options.get("no_wait"),
    }
    if "name" in call.options:
        fields["service"] = call.options["name"]
    if "restart" in call.options:
        fields["restart_policy"] = call.options["restart"]
    elif is_waiting:
        # The caller waits for its exit code, which a restart would hide.
        fields["restart_policy"] = "never"
    if call.options.get("terminal"):
        fields["terminal"] = True
    if call.options.get("stdin") or (is_waiting and not call.options.get("terminal")):
        fields["stdin"] = "pipe"
    ends = log_ends(call.places.logs)
    daemon, result = launch(call, lambda: call.ask("run", **fields))
    service, outcome = result["service"], result["outcome"]
    if is_waiting:
        reap_orphans(daemon.keeper)
        if call.options.get("terminal") and sys.stdin.isatty() and sys.stdout.isatty():
            return _stay_attached(call, service)
        if outcome["outcome"] != "already_running":
            # In the background of a terminal, reading is an error instead of a stop.
            signal.signal(signal.SIGTTIN, signal.SIG_IGN)
            threading.Thread(target=_pass_input, args=(call, service), daemon=True).start()
        return _wait(call, service, outcome, ends.get(service, cursors.BEGINNING))
    if call.is_json:
        call.emit(result)
        return int(outcome["outcome"] == "failed")
    code = report(call, {"services": {service: outcome}})
    if not code:
        call.say(call.paint(f"follow it: holdfast logs -f {service}", "dim"))
    return code


def _run_later(call: Call) -> int:
    """Add it to the queue: what is started later must survive until then."""
    for name in ("name", "wait", "terminal", "restart", "stdin", "no_wait"):
        if name in call.options:
            raise UsageError(
                f"--{name.replace('_', '-')} is for a command that starts now",
                "leave out one of the two",
            )
    fields = {
        "argv": call.operands,
        "working_dir": os.path.realpath(call.folder),
        "delay": call.options["delay"],
    }
    _, result = launch(call, lambda: call.ask("add_job", **fields))
    if call.is_json:
        call.emit(result)
    else:
        call.say(result["job"]["id"])
    return 0


def _check_words(call: Call) -> None:
    """Refuse a whole line in quotes: it is for a shell, no program has such a name."""
    line = " ".join(call.operands)
    if len(call.operands) > 1 or " " not in line:
        return
    if not os.path.exists(os.path.join(call.folder, line)):
        from shlex import quote

        hint = f"a shell takes it: holdfast run -- sh -c {quote(line)}"
        raise UsageError(f'no program is called "{line}"', hint)


def _stay_attached(call: Call, service: str) -> int:
    """Connect the caller's terminal with that of the command until it ends, or is left."""
    if Attachment(call, service).stay() == "detached":
        sys.stdout.write("\r\n")
        call.say(f"detached; {service} goes on, and holdfast attach {service} returns to it")
        return 0
    final = call.ask("wait", service=service, condition="exited")
    return exit_code(call.ask("status", services=[service])["services"][final["service"]])


def _pass_input(call: Call, service: str) -> None:
    """Pass standard input on, and its end, until there is no more or nobody reads it."""
    own = Call(ParsedArguments(None, call.options, []), call.environ)
    try:
        while data := os.read(sys.stdin.fileno(), PIECE_BYTES):
            send_bytes(own, service, data)
        own.ask("send_input", service=service, eof=True)
    except (OSError, HoldfastError):
        pass  # it has ended, or reads nothing any more; how it ended is told elsewhere
    finally:
        own.close()


def _wait(call: Call, service: str, outcome: dict[str, Any], start: Cursor) -> int:
    """Show its output on the same streams until it has ended for good. Ctrl-C and SIGTERM stop
    it."""
    output: _Output = (_JsonOutput if call.is_json else _RawOutput)(call, service, start)
    stopping: list[Connection] = []
    while True:
        try:
            final = _follow_to_end(call, service, output)
            break
        except KeyboardInterrupt:
            stopping.append(connect(call.places))
            fields = {"grace": 0} if len(stopping) > 1 else {}
            stopping[-1].send("stop", services=[service], **fields)
            call.use(None)
        except ConnectionLost:
            connect_again(call)
    output.finish()
    for connection in stopping:
        connection.close()
    if call.is_json:
        call.emit_line({"service": service, **final})
    if outcome["outcome"] == "failed" and final.get("exit_code") is None and not final["signal"]:
        raise Failed(f"{service}: {final.get('reason') or outcome.get('reason')}")
    return exit_code(final)


def _follow_to_end(call: Call, service: str, output: _Output) -> dict[str, Any]:
    connection = call.connect()
    watch = connection.send("watch", services=[service])
    events = connection.send("events", follow=True, since=_newest(call), services=[service])
    with interruptible() as wait:
        while True:
            output.wake()
            now: dict[str, Any] = connection.ask("status", services=[service])["services"][service]
            if now["status"] in OVER_STATES:
                return now
            frame = wait.receive(connection)
            while frame is None or frame.get("id") not in (watch, events):
                frame = wait.receive(connection)


def _newest(call: Call) -> int:
    newest: int = call.ask("events", limit=1).get("last", 0)
    return newest


class _RawOutput:
    """Its output, byte for byte on the same streams."""

    def __init__(self, call: Call, service: str, start: Cursor) -> None:
        self._chunks = Reader(call.places.logs, service).chunks(start)

    def wake(self) -> None:
        for item in self._chunks:
            if isinstance(item, Chunk):
                target = sys.stdout.buffer if item.stream == "out" else sys.stderr.buffer
                target.write(item.data)
                target.flush()

    def finish(self) -> None:
        self.wake()
        self._chunks.close()


class _JsonOutput:
    """Its output as JSON lines, as `logs --json` shows it."""

    def __init__(self, call: Call, service: str, start: Cursor) -> None:
        learn_secrets(call)
        printer = Printer(Style(PLAIN, prefix=False, is_json=True))
        self._service = service
        self._logs = LogFollower(call.places.logs, printer, [service])
        self._logs.add(service, start)

    def wake(self) -> None:
        self._logs.wake(self._service)

    def finish(self) -> None:
        self._logs.finish_all()
        self._logs.close()


_Output = _RawOutput | _JsonOutput


def exit_code(service: dict[str, Any]) -> int:
    """As a shell has it: the exit code, or 128 + the number of the signal."""
    if service.get("signal"):
        try:
            return 128 + signal.Signals[service["signal"]].value
        except KeyError:
            return 1
    code = service.get("exit_code")
    return 1 if code is None else int(code)
