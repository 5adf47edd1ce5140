"""One use of the command line: its options, its project, its connection, its output.

Every verb's function gets one. Connects only when asked to, and starts nothing.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.terminal.screen import Paint, paint_for
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.client.discovery import HUNG_SECONDS, reach
from holdfast.system.places import Places, find_places
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.printable import json_text, printable_colours, printable_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.cli.parser.arguments import Arguments

SHOWN_SECONDS = 1.0
"""How often somebody who waits is shown what for."""
SAFE_TO_REPEAT = frozenset(
    {
        *("read_file", "list_files", "file_changes", "search", "search_logs", "checkpoints"),
        *("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
        *("status", "up", "start", "stop", "pause", "resume", "ps", "wait", "runs", "events"),
        *("prune", "plan", "reload", "alerts", "explain", "metrics", "workflows", "scale"),
        *("get_mode", "approvals", "unlock"),
    }
)


WITH_KEY = frozenset({"up", "start", "stop", "pause", "resume", "scale", "unlock"})
"""Of these, those that would undo what somebody asked for since if they were done twice: they
carry a key, by which the supervisor knows them again."""


def folder_of(given: str) -> str:
    """The folder to work in, for what `-C` says of it."""
    if os.path.isabs(given):
        return given
    try:
        return os.path.join(os.getcwd(), given)
    except FileNotFoundError:
        raise UsageError(
            "the folder you are in was deleted", "cd to another one, or name it: holdfast -C FOLDER"
        ) from None


class Call:
    """What a verb works with."""

    def __init__(self, arguments: Arguments, environ: Mapping[str, str]) -> None:
        self.options = arguments.options
        self.operands = arguments.operands
        self.environ = environ
        self.is_json = bool(self.options.get("json"))
        self.folder = folder_of(self.options.get("C") or "")
        self._places: Places | None = None
        self._connection: Connection | None = None
        self.meanwhile: Callable[[Connection], object] | None = None
        """Called again and again while an answer is awaited."""
        self.paint: Paint = paint_for(
            self.options.get("color", "auto"), environ, is_terminal=sys.stdout.isatty()
        )

    @property
    def places(self) -> Places:
        if self._places is None:
            self._places = find_places(
                self.folder,
                self.environ,
                config=self.options.get("config")
                or self.environ.get("HOLDFAST_CONFIG")
                or self.environ.get("MAGICTUNNEL_CONFIG"),
                state_dir=self.options.get("state_dir"),
            )
        return self._places

    def connect(self) -> Connection:
        """The one connection of this call, made when first needed."""
        if self._connection is None:
            self.use(reach(self.places))
            assert self._connection is not None
        return self._connection

    def use(self, connection: Connection | None) -> None:
        """Speak over this connection from now on."""
        self.close()
        self._connection = connection
        if connection is not None:
            connection.on_notice = self._on_notice

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, command: str, /, **fields: Any) -> dict[str, Any]:
        """Ask; once more if the supervisor was replaced meanwhile and asking twice is safe."""
        if command in WITH_KEY:
            fields.setdefault("key", os.urandom(12).hex())
        try:
            return self._ask(command, fields)
        except ConnectionLost:
            self.close()
            if command not in SAFE_TO_REPEAT:
                raise
        return self._ask(command, fields)

    def _ask(self, command: str, fields: dict[str, Any]) -> dict[str, Any]:
        connection = self.connect()
        request = connection.send(command, **fields)
        while True:
            try:
                return connection.answer(request, SHOWN_SECONDS if self.meanwhile else HUNG_SECONDS)
            except TimeoutError:
                if self.meanwhile:
                    self.meanwhile(connection)
                else:
                    self.see_if_alive()

    def see_if_alive(self) -> None:
        """Whether the supervisor is only busy; SupervisorHung when it answers nobody."""
        reach(self.places, any_version=True).close()

    def _on_notice(self, notice: dict[str, Any]) -> None:
        """It waits for somebody's approval."""
        self.note(str(notice.get("message") or notice))

    def say(self, text: str = "") -> None:
        sys.stdout.write(printable_colours(text) + "\n")

    def write(self, text: str) -> None:
        """The text of a file as it is; on a terminal, without what would control that."""
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)

    def note(self, text: str) -> None:
        """Something beside the result, for people."""
        sys.stdout.flush()
        sys.stderr.write(f"holdfast: {printable_colours(text)}\n")
        sys.stderr.flush()

    def emit(self, value: Any) -> None:
        """One JSON object: on one line, or laid out for a terminal."""
        import json

        indent = 2 if sys.stdout.isatty() else None
        sys.stdout.write(json_text(json.dumps(value, indent=indent, ensure_ascii=False)) + "\n")

    def emit_line(self, value: Any) -> None:
        """One JSON object of a stream."""
        import json

        sys.stdout.write(json_text(json.dumps(value, ensure_ascii=False)) + "\n")
        sys.stdout.flush()
