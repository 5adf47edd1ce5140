"""`holdfast run`: supervise a command; with --wait, be that command until it ends."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.first_process import reap_others
from holdfast.cli.services import tell
from holdfast.cli.terminal.follow import connect_again, learn_secrets
from holdfast.cli.terminal.output import Followed, Printer, Style, ends_of
from holdfast.cli.terminal.screen import PLAIN
from holdfast.cli.terminal.signals import heed_sigterm, patience
from holdfast.cli.up import environment_of, launch
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.client.discovery import reach
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Chunk
from holdfast.logbook.follow import ChunkFollower
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.errors import Failed, UsageError

OVER_STATES = frozenset({"exited", "failed", "stopped"})


def run(call: Call) -> int:
    _check_it_is_words(call)
    _check_input(call)
    is_waiting = bool(call.options.get("wait"))
    if is_waiting:
        heed_sigterm()
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
        # Its exit code is what is waited for; another try would only hide it.
        fields["restart_policy"] = "never"
    if call.options.get("terminal"):
        fields["terminal"] = True
    if call.options.get("stdin"):
        fields["stdin"] = "pipe"
    ends = ends_of(call.places.logs)
    launched, result = launch(call, lambda: call.ask("run", **fields))
    service, outcome = result["service"], result["outcome"]
    if is_waiting:
        reap_others(launched.keeper)
        return _wait(call, service, outcome, ends.get(service, cursors.BEGINNING))
    if call.is_json:
        call.emit(result)
        return int(outcome["outcome"] == "failed")
    code = tell(call, {"services": {service: outcome}})
    if not code:
        call.say(call.paint(f"follow it: holdfast logs -f {service}", "dim"))
    return code


def _check_it_is_words(call: Call) -> None:
    """A whole line in quotes is for a shell; as a program it would only be looked for in vain."""
    line = " ".join(call.operands)
    if len(call.operands) > 1 or " " not in line:
        return
    if not os.path.exists(os.path.join(call.folder, line)):
        from shlex import quote

        hint = f"a shell takes it: holdfast run -- sh -c {quote(line)}"
        raise UsageError(f'no program is called "{line}"', hint)


def _check_input(call: Call) -> None:
    """What waits is taken for the command itself, and would be given input in vain."""
    if call.options.get("wait") and call.options.get("stdin"):
        hint = "let a shell give it its input: holdfast run --wait -- sh -c 'COMMAND < FILE'"
        raise UsageError("--stdin with --wait: your input is not passed on to the command", hint)


def _wait(call: Call, service: str, outcome: dict[str, Any], start: Cursor) -> int:
    """Show its output on the same streams, until it is over for good; SIGTERM and Ctrl-C are
    for it."""
    shown: _Bytes | _Lines = (_Lines if call.is_json else _Bytes)(call, service, start)
    stopping: list[Connection] = []
    while True:
        try:
            final = _follow_to_end(call, service, shown)
            break
        except KeyboardInterrupt:
            stopping.append(reach(call.places))
            fields = {"grace": 0} if len(stopping) > 1 else {}
            stopping[-1].send("stop", services=[service], **fields)
            call.use(None)
        except ConnectionLost:
            connect_again(call)
    shown.finish()
    for connection in stopping:
        connection.close()
    if call.is_json:
        call.emit_line({"service": service, **final})
    if outcome["outcome"] == "failed" and final.get("exit_code") is None and not final["signal"]:
        raise Failed(f"{service}: {final.get('reason') or outcome.get('reason')}")
    return exit_code(final)


def _follow_to_end(call: Call, service: str, shown: _Bytes | _Lines) -> dict[str, Any]:
    connection = call.connect()
    watched = connection.send("watch", services=[service])
    told = connection.send("events", follow=True, since=_newest(call), services=[service])
    with patience() as patient:
        while True:
            shown.wake()
            now: dict[str, Any] = connection.ask("status", services=[service])["services"][service]
            if now["status"] in OVER_STATES:
                return now
            frame = patient.receive(connection)
            while frame is None or frame.get("id") not in (watched, told):
                frame = patient.receive(connection)


def _newest(call: Call) -> int:
    newest: int = call.ask("events", limit=1).get("last", 0)
    return newest


class _Bytes:
    """What it prints, on the same streams."""

    def __init__(self, call: Call, service: str, start: Cursor) -> None:
        self._follower = ChunkFollower(Reader(call.places.logs, service), start)

    def wake(self) -> None:
        for item in self._follower.wake():
            if isinstance(item, Chunk):
                target = sys.stdout.buffer if item.stream == "out" else sys.stderr.buffer
                target.write(item.data)
                target.flush()

    def finish(self) -> None:
        self.wake()
        self._follower.close()


class _Lines:
    """The same in JSON, one line each, as `logs --json` tells it."""

    def __init__(self, call: Call, service: str, start: Cursor) -> None:
        learn_secrets(call)
        printer = Printer(Style(PLAIN, prefix=False, is_json=True))
        self._service = service
        self._followed = Followed(call.places.logs, printer, [service])
        self._followed.add(service, start)

    def wake(self) -> None:
        self._followed.wake(self._service)

    def finish(self) -> None:
        self._followed.finish_all()
        self._followed.close()


def exit_code(service: dict[str, Any]) -> int:
    """The shell's convention: the code, or 128 and the signal's number."""
    if service.get("signal"):
        try:
            return 128 + signal.Signals[service["signal"]].value
        except KeyError:
            return 1
    code = service.get("exit_code")
    return 1 if code is None else int(code)
