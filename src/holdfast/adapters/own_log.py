"""Holdfast's own log: a rotated file in the state folder, as lines for people or as JSON.

Levels are given as `info` or `module=trace,…`. Listeners are told that the log grew. Owns no
thread. Callers pass names, never values of an environment; anything with the shape of a secret is
redacted all the same.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from holdfast.adapters import keeper_memory
from holdfast.secrets.redaction import redact, redact_value
from holdfast.system.places import generations
from holdfast.system.private_files import open_plain
from holdfast.vocabulary.printable import printable, printable_lines

if TYPE_CHECKING:
    import asyncio
    from io import TextIOWrapper

ROOT = "holdfast"
TRACE = 5
MOST_HELD = 100
"""So many lines wait for the configuration, which decides their format."""
SIZE_BYTES = 4 * 1024 * 1024
_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "off": logging.CRITICAL + 1,
}


_OF_EVERY_RECORD = {
    *logging.LogRecord("", 0, "", 0, "", (), None).__dict__,
    *("message", "asctime", "taskName"),
}
_chosen: list[tuple[str, int]] = []
"""The levels in force for groups of modules; a later one wins."""
_bells: list[_Bell] = []


def logger(module: str) -> logging.Logger:
    """Return the logger of a module, named by its package: `holdfast.engine.roster`.

    So a level can be set for a package (`engine`), a module (`roster`), or all modules with a word
    in their name (`health`).
    """
    place = str(sys._getframe(1).f_globals.get("__name__", "")).split(".")
    package = ".".join(place[1:-1]) if place[0] == ROOT else ""
    found = logging.getLogger(".".join(filter(None, (ROOT, package, module))))
    _set_level_of(found)
    return found


def facts(**known: Any) -> dict[str, Any]:
    """Return `extra` for a log call: fields in JSON, key=value for people."""
    return {"facts": {name: value for name, value in known.items() if value is not None}}


def open_log(
    path: str, *, style: str = "human", is_held: bool = False, size_bytes: int = SIZE_BYTES
) -> None:
    """Begin to write the log. The composition root calls it once.

    With `is_held` the first lines wait for `set_style` or `release`; a warning ends the wait.
    """
    logging.addLevelName(TRACE, "TRACE")
    # A log on a full disk must not become a flood of complaints about itself.
    logging.raiseExceptions = False
    root = logging.getLogger(ROOT)
    root.propagate = False
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    formatter = _Json() if style == "json" else _Human()
    real = os.path.realpath(path)
    file = _Rotated(real, encoding="utf-8", errors="backslashreplace", delay=True)
    file.usual_path = path
    file.try_open()
    file.held = [] if is_held else None
    file.size_bytes = size_bytes
    file.setFormatter(formatter)
    root.addHandler(file)
    set_level("info")


def listen(loop: asyncio.AbstractEventLoop, grew: Callable[[], None]) -> Callable[[], None]:
    """Call `grew` on the loop after lines were written, at most once a turn, from any thread.

    Returns a function that ends this.
    """
    bell = _Bell(loop, grew)
    _bells.append(bell)
    return lambda: _bells.remove(bell)


def restore(kept: Mapping[str, str]) -> None:
    """Apply the level and format that an earlier supervisor was given."""
    if file := kept.get(keeper_memory.LOG_FILE):
        set_file(file)
    if level := kept.get(keeper_memory.LOG_LEVEL):
        set_level(level)
    if style := kept.get(keeper_memory.LOG_FORMAT):
        set_style(style)


def set_level(text: str) -> list[str]:
    """Apply `info` or `module=trace,…`; return the words that were not understood."""
    unknown = []
    root, level = logging.getLogger(ROOT), logging.INFO
    _chosen.clear()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        module, _, name = part.rpartition("=")
        number = _LEVELS.get(name.strip().lower())
        if number is None:
            unknown.append(part)
            continue
        group = module.strip().replace("::", ".").removeprefix(f"{ROOT}.")
        if group in ("", "*", ROOT):
            level = number
        else:
            logging.getLogger(f"{ROOT}.{group}")  # modules loaded later inherit its level
            _chosen.append((group, number))
    root.setLevel(level)
    for known in list(logging.Logger.manager.loggerDict.values()):
        if isinstance(known, logging.Logger) and known.name.startswith(f"{ROOT}."):
            _set_level_of(known)
    return unknown


def set_style(style: str) -> None:
    """Write the next lines as `human` or `json`."""
    for handler in logging.getLogger(ROOT).handlers:
        handler.setFormatter(_Json() if style == "json" else _Human())
    release()


def set_file(path: str | None) -> None:
    """Write the next lines to this file; None: to the one in the state folder, which is a link to
    the other while there is one. A file that cannot be written changes nothing."""
    for handler in logging.getLogger(ROOT).handlers:
        if isinstance(handler, _Rotated):
            try:
                handler.move(path)
            except OSError as error:
                logging.getLogger(ROOT).error("log_file %s cannot be written: %s", path, error)


def release() -> None:
    """Write the held lines: their format is known by now, or never will be."""
    for handler in logging.getLogger(ROOT).handlers:
        if isinstance(handler, _Rotated):
            handler.write_held()


def _set_level_of(one: logging.Logger) -> None:
    level = logging.NOTSET
    for group, number in _chosen:
        if _is_of(one.name.removeprefix(f"{ROOT}."), group):
            level = number
    one.setLevel(level)


def _is_of(name: str, group: str) -> bool:
    """Return whether a group means this module: by its path, its package, or a word of its name."""
    if f"{name}.".startswith(f"{group}."):
        return True
    return any(part == group or group in part.split("_") for part in name.split("."))


class _Bell:
    """Wakes a loop.

    What `grew` itself logs wakes it no second time, so there is no endless loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, grew: Callable[[], None]) -> None:
        self._loop = loop
        self._grew = grew
        self._is_rung = False

    def ring(self) -> None:
        if not self._is_rung:
            self._is_rung = True
            with suppress(RuntimeError):  # the last lines come when the loop is closed
                self._loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        try:
            self._grew()
        finally:
            self._is_rung = False


class _Rotated(logging.FileHandler):
    """A file handler that rotates.

    Our own, because `logging.handlers` takes 6 ms to import, and every start would wait for it.
    """

    usual_path = ""
    """Where it lies in the state folder; there is a link while it lies elsewhere."""
    held: list[logging.LogRecord] | None = None
    _is_lost = False
    size_bytes = SIZE_BYTES

    def emit(self, record: logging.LogRecord) -> None:
        if self.held is not None:
            self.held.append(record)
            if record.levelno >= logging.WARNING or len(self.held) >= MOST_HELD:
                self.write_held()
            return
        if not self.try_open():
            return
        super().emit(record)
        try:
            if self.stream is not None and os.fstat(self.stream.fileno()).st_size > self.size_bytes:
                self._rotate()
        except OSError:
            self.handleError(record)
        for bell in _bells:
            bell.ring()

    def try_open(self) -> bool:
        """Open the file unless it is open.

        If that fails, only log lines are lost, and the next line tries again.
        """
        if self.stream is not None:
            return True
        try:
            self.stream = self._open()
        except OSError as error:
            if not self._is_lost:
                self._is_lost = True
                with suppress(OSError):  # that file is lost, too
                    sys.stderr.write(f"Holdfast's own log cannot be written: {error}\n")
            return False
        self._is_lost = False
        return True

    def _open(self) -> TextIOWrapper:
        fd = open_plain(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return open(fd, "a", encoding=self.encoding, errors=self.errors)

    def move(self, path: str | None) -> None:
        """Go on in another file; raises OSError if that cannot be written."""
        wanted = self.usual_path if path is None else os.path.abspath(path)
        is_link = os.path.islink(self.usual_path)
        if os.path.realpath(wanted) == self.baseFilename and is_link == (path is not None):
            return
        self.acquire()
        try:
            if path is not None:
                os.makedirs(os.path.dirname(wanted), exist_ok=True)
                os.close(open_plain(wanted, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            stream, self.stream = self.stream, None
            if stream is not None:
                stream.close()
            if is_link:
                os.unlink(self.usual_path)
            elif path is not None and os.path.exists(self.usual_path):
                self._rotate()
            if path is not None:
                os.symlink(wanted, self.usual_path)
            self.baseFilename = os.path.realpath(wanted)
        finally:
            self.release()

    def write_held(self) -> None:
        self.acquire()
        try:
            held, self.held = self.held, None
            for record in held or ():
                # Meanwhile the configuration may have set a higher level.
                if logging.getLogger(record.name).isEnabledFor(record.levelno):
                    self.emit(record)
        finally:
            self.release()

    def close(self) -> None:
        self.write_held()
        super().close()

    def _rotate(self) -> None:
        names = generations(self.baseFilename)
        for newer, older in reversed([*itertools.pairwise(names)]):
            if os.path.exists(newer):
                os.replace(newer, older)
        # The next record opens it again.
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc).astimezone()
        module = record.name.removeprefix(f"{ROOT}.")
        line = f"{when:%Y-%m-%d %H:%M:%S}.{int(record.msecs):03d} {record.levelname:<7} {module}: "
        line += printable(record.getMessage())
        line += "".join(
            f" {name}={printable(_value_in_text(value))}" for name, value in _facts(record).items()
        )
        if record.exc_info:
            line += f"\n{printable_lines(self.formatException(record.exc_info))}"
        return redact(line)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "module": record.name.removeprefix(f"{ROOT}."),
            "message": redact(record.getMessage()),
        }
        fields.update(
            (name, value)
            for name, value in redact_value(_facts(record)).items()
            if name not in fields
        )
        if record.exc_info:
            fields["error"] = redact(str(record.exc_info[1]))
            fields["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(fields, default=str)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was given as `extra`, by `facts` or directly."""
    known = {name: fact for name, fact in record.__dict__.items() if name not in _OF_EVERY_RECORD}
    known.update(known.pop("facts", {}))
    return known


def _value_in_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or re.search(r"[\s=\"]", text) else text
