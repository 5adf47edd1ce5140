"""One use of the command line: its options, its project, its connection, its output.

Every verb's function gets one. It connects only when asked to, and starts nothing.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.terminal.screen import Paint, paint_for, table, width
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.client.discovery import HUNG_SECONDS, connect
from holdfast.system.places import Places, find_places, named_config
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.printable import json_text, printable_colours, printable_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.cli.parser.arguments import ParsedArguments

PROGRESS_SECONDS = 1.0
"""How often the progress of a long request is shown."""
READS = frozenset(
    {
        *("hello", "status", "ps", "wait", "watch", "runs", "events", "plan", "config"),
        *("environment", "follow_workflow"),
        *("health_check", "alerts", "explain", "metrics", "ports", "list_sessions", "workflows"),
        *("read_file", "list_files", "file_changes", "search", "search_logs", "checkpoints"),
        *("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
        *("get_mode", "approvals", "policies", "list_tokens", "check_access", "audit"),
        *("banners", "dependencies", "mcp_servers", "mcp_tools", "read_mcp_tool"),
        *("list_backends", "list_agents", "transcript"),
        *("list_jobs", "show_job", "job_logs", "wait_job", "job_stats"),
    }
)
"""Commands that only read: after a lost connection they are asked again as they are."""
WITH_KEY = frozenset(
    {
        *("up", "start", "stop", "pause", "resume", "scale", "reload", "prune"),
        *("close_session", "write_file", "unlock", "dismiss_banner", "call_mcp_tool"),
        "approve_mcp_tools",
    }
)
"""Changes that are asked again under the same key, by which the supervisor recognises them.

Both sets repeat what the commands say of themselves (`effect`, `repeatable`), because the command
line may not import the vocabulary's commands. A test compares them.
"""


def folder_of(given: str) -> str:
    """The folder to work in: what `-C` gives, seen from the current folder."""
    if os.path.isabs(given):
        return given
    try:
        return os.path.join(os.getcwd(), given)
    except FileNotFoundError:
        raise UsageError(
            "the folder you are in was deleted", "cd to another one, or name it: holdfast -C FOLDER"
        ) from None


def note_edits(call: Call) -> None:
    """Say that the configuration was edited since it was loaded, and what applies it."""
    if call.is_json:
        return
    try:
        banners = call.ask("banners")["banners"]
    except HoldfastError:
        return  # only a note; what was asked for is done
    for banner in banners:
        if banner["id"] == "edited":
            call.note(f"{banner['title']}: {banner['hint']}")


class Call:
    """What a verb works with."""

    def __init__(self, arguments: ParsedArguments, environ: Mapping[str, str]) -> None:
        self.options = arguments.options
        self.operands = arguments.operands
        self.begins_with_dashes = arguments.begins_with_dashes
        self.dashes_at = arguments.dashes_at
        """The number of operands before `--`; None: there is no `--`."""
        self.environ = environ
        self.is_json = bool(self.options.get("json"))
        self.folder = folder_of(self.options.get("C") or "")
        self._places: Places | None = None
        self._connection: Connection | None = None
        self.on_progress: Callable[[Connection], object] | None = None
        """Called every PROGRESS_SECONDS while an answer is awaited."""
        self.paint: Paint = paint_for(
            self.options.get("color", "auto"), environ, is_terminal=sys.stdout.isatty()
        )

    @property
    def places(self) -> Places:
        if self._places is None:
            self._places = find_places(
                self.folder,
                self.environ,
                config=self.options.get("config") or named_config(self.environ),
                state_dir=self.options.get("state_dir"),
            )
        return self._places

    def connect(self) -> Connection:
        """The one connection of this call, made when it is first needed."""
        if self._connection is None:
            self.use(connect(self.places))
            assert self._connection is not None
        return self._connection

    def use(self, connection: Connection | None) -> None:
        """Use this connection from now on; None closes the last one."""
        self.close()
        self._connection = connection
        if connection is not None:
            connection.on_notice = self._on_notice

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, command: str, /, **fields: Any) -> dict[str, Any]:
        """Ask a command. If the supervisor is replaced meanwhile and a second request is safe, ask
        once more."""
        if command in WITH_KEY:
            fields.setdefault("key", os.urandom(12).hex())
        try:
            return self._ask(command, fields)
        except ConnectionLost:
            self.close()
            if command not in READS and command not in WITH_KEY:
                raise
        return self._ask(command, fields)

    def _ask(self, command: str, fields: dict[str, Any]) -> dict[str, Any]:
        connection = self.connect()
        request = connection.send(command, **fields)
        while True:
            try:
                return connection.answer(
                    request, PROGRESS_SECONDS if self.on_progress else HUNG_SECONDS
                )
            except TimeoutError:
                if self.on_progress:
                    self.on_progress(connection)
                else:
                    self.check_supervisor()

    def check_supervisor(self) -> None:
        """Raise SupervisorHung if the supervisor answers nobody; return if it is only busy."""
        connect(self.places, any_version=True).close()

    def _on_notice(self, notice: dict[str, Any]) -> None:
        """The request waits for an approval."""
        self.note(str(notice.get("message") or notice))

    def path(self, typed: str) -> str:
        """A typed path as an absolute one, because the supervisor works in another folder.
        ROOT:PATH stays."""
        import re

        if not re.match(r"[a-z0-9][a-z0-9._-]*:", typed):
            typed = os.path.normpath(os.path.join(os.path.realpath(self.folder), typed))
        try:
            typed.encode()
        except UnicodeEncodeError:
            from urllib.parse import quote_from_bytes

            return "uri:" + quote_from_bytes(os.fsencode(typed), safe="/:")
        return typed

    def say(self, text: str = "") -> None:
        """Write a line of the result."""
        sys.stdout.write(printable_colours(text) + "\n")

    def say_table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        state_column: int | None = None,
    ) -> None:
        """Write a table as wide as the terminal."""
        self.say("\n".join(table(heads, rows, self.paint, width(), state_column)))

    def write(self, text: str) -> None:
        """Write the text of a file as it is; on a terminal without control characters."""
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)

    def note(self, text: str) -> None:
        """Write a remark for people to standard error, beside the result."""
        sys.stdout.flush()
        sys.stderr.write(f"holdfast: {printable_colours(text)}\n")
        sys.stderr.flush()

    def emit(self, value: Any) -> None:
        """Write one JSON object, on one line or laid out for a terminal."""
        import json

        indent = 2 if sys.stdout.isatty() else None
        sys.stdout.write(json_text(json.dumps(value, indent=indent, ensure_ascii=False)) + "\n")

    def emit_line(self, value: Any) -> None:
        """Write one JSON object of a stream."""
        import json

        sys.stdout.write(json_text(json.dumps(value, ensure_ascii=False)) + "\n")
        sys.stdout.flush()
