"""Sessions of agents on disk: for each a folder with its record and its transcript.

The record is a checkpoint: it says up to which byte of the process's log everything is understood,
and how long the transcript was then. What comes after it is read again from the log, so that no
death loses an event or tells it twice. The folder is apart from the history, whose loss ends no
conversation.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.system.private_files import make_folder, open_plain, read_plain, replace_file
from holdfast.vocabulary.readers import reader

FOLDER = "agents"
_RECORD, _TRANSCRIPT = "record.json", "events.jsonl"
_log = logger("agents")
_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(dict[str, Any]).decode


class PendingPermission(msgspec.Struct, kw_only=True):
    """A permission that an agent waits for."""

    request: str
    approval: str
    tool: str
    title: str = ""
    input: dict[str, Any] = {}
    asked_at: float = 0.0


class Totals(msgspec.Struct, kw_only=True):
    """What a session has used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    turns: int = 0
    seconds: float = 0.0


class SessionRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that the next supervisor must know of a session."""

    session: str
    """`session-{UUID}`."""
    service: str
    """The service that runs its processes."""
    backend: str
    kind: str
    folder: str
    opened_at: float
    opened_by: str
    worktree: str | None = None
    repository: str | None = None
    """The folder whose worktree it is."""
    parent: str | None = None
    """The session that delegated to it."""
    is_task: bool = False
    """Whether it was opened for a delegated task, is stopped when that is over, and nobody else has
    given it a prompt."""
    confined_to: str | None = None
    """The folder that its processes may not be started outside of."""
    provider_id: str | None = None
    provider_ids: list[str] = []
    """All that it had, the newest last."""
    is_fork: bool = False
    """Whether the next run begins a copy of `provider_id`."""
    condition: str = "new"
    failure: str | None = None
    sentence: str | None = None
    fix: str | None = None
    run: int = 0
    """The number of the run that is, or was last, listened to."""
    over: int = 0
    """The number of the last run whose end is accounted for."""
    is_ready: bool = False
    """Whether that run has said that it is ready."""
    out: int = 0
    err: int = 0
    """The places in the log up to which both streams are understood."""
    memory: dict[str, Any] = {}
    """What the dialect of that run remembers."""
    errors: list[str] = []
    """The last lines of standard error of that run."""
    outbox: list[str] = []
    """What is to be written to it, in base64, that it may not have got."""
    written: int = 0
    """The number of the first of these; all before it are written."""
    seq: int = 0
    transcript: int = 0
    """The size of the transcript at this checkpoint."""
    turn: int = 0
    turn_began: float | None = None
    """When the turn under way began. None: none is."""
    answer: str = ""
    """The end of what the backend answered in the last turn."""
    queue: list[str] = []
    """Prompts that wait for their turn."""
    pending: list[PendingPermission] = []
    totals: Totals = msgspec.field(default_factory=Totals)
    crashes: int = 0
    """In a row."""
    next_start_at: float | None = None


_decode = reader(SessionRecord)


class AgentStore:
    """The folders of all sessions. Every method blocks."""

    def __init__(self, state: str) -> None:
        self._root = os.path.join(state, FOLDER)

    def load(self) -> list[SessionRecord]:
        """Return every session that can be read, the oldest first."""
        found = []
        try:
            names = os.listdir(self._root)
        except FileNotFoundError:
            return []
        for name in names:
            try:
                found.append(_decode(read_plain(os.path.join(self._root, name, _RECORD))))
            except (OSError, msgspec.MsgspecError) as error:
                _log.error("the session %s cannot be read: %s", name, error)
        return sorted(found, key=lambda record: record.opened_at)

    def begin(self, record: SessionRecord) -> None:
        """Make the folder of a new session; its record is on disk when this returns."""
        make_folder(self._root)
        folder = self._folder(record.session)
        os.mkdir(folder, 0o700)
        replace_file(os.path.join(folder, _RECORD), _encode(record))

    def write(self, session: str, place: int, events: bytes, record: bytes | None) -> None:
        """Put events at a place of the transcript, whatever was there; then the checkpoint."""
        folder = self._folder(session)
        if events:
            path = os.path.join(folder, _TRANSCRIPT)
            fd = open_plain(path, os.O_WRONLY | os.O_CREAT)
            try:
                os.ftruncate(fd, place)
                view = memoryview(events)
                while view:
                    done = os.pwrite(fd, view, place)
                    view, place = view[done:], place + done
            finally:
                os.close(fd)
        if record is not None:
            replace_file(os.path.join(folder, _RECORD), record, is_synced=False)

    def events(self, session: str, place: int, until: int) -> tuple[list[dict[str, Any]], int]:
        """Return whole events from a place in the transcript on, and the place behind them."""
        try:
            fd = open_plain(os.path.join(self._folder(session), _TRANSCRIPT), os.O_RDONLY)
        except FileNotFoundError:
            return [], place
        try:
            data = os.pread(fd, max(0, min(until - place, 1 << 20)), place)
            while data and b"\n" not in data and place + len(data) < until:
                data += os.pread(fd, 1 << 20, place + len(data))
        finally:
            os.close(fd)
        whole = data[: data.rfind(b"\n") + 1]
        return list(_events_in(whole)), place + len(whole)

    def transcript(self, session: str) -> str:
        """Return the path of a session's transcript."""
        return os.path.join(self._folder(session), _TRANSCRIPT)

    def remove(self, session: str) -> None:
        shutil.rmtree(self._folder(session), ignore_errors=True)

    def _folder(self, session: str) -> str:
        return os.path.join(self._root, os.path.basename(session))


def encode_record(record: SessionRecord) -> bytes:
    return _encode(record)


def encode_events(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(_encode(event) + b"\n" for event in events)


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _events_in(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            yield _decode_line(line)
        except msgspec.MsgspecError as error:
            _log.error("an event of a transcript cannot be read: %s", error)
