"""Holdfast's own log: a rotated file in the state folder, as lines for people or JSON.

Levels are given as `info` or `module=trace,…`. Owns no thread and never logs values of an
environment: callers pass names, and this module has no access to the rest.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import sys
from datetime import datetime, timezone
from typing import Any

ROOT = "holdfast"
TRACE = 5
_SIZE, _BACKUPS = 4 * 1024 * 1024, 3
_LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}


def logger(module: str) -> logging.Logger:
    return logging.getLogger(f"{ROOT}.{module}")


def open_log(path: str, *, level: str = "info", style: str = "human", stderr: bool = False) -> None:
    """Begin to write the log; called once, by the composition root."""
    logging.addLevelName(TRACE, "TRACE")
    # A log on a full disk must not become a flood of complaints about itself.
    logging.raiseExceptions = False
    root = logging.getLogger(ROOT)
    root.propagate = False
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    formatter = _Json() if style == "json" else _Human()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.close(descriptor)
    handlers: list[logging.Handler] = [_Rotated(path, encoding="utf-8", errors="backslashreplace")]
    if stderr:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    set_level(level)


def set_level(text: str) -> list[str]:
    """Apply `info` or `module=trace,…`; answers the words that were not understood."""
    unknown = []
    logging.getLogger(ROOT).setLevel(logging.INFO)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        module, _, name = part.rpartition("=")
        number = _LEVELS.get(name.strip().lower())
        if number is None:
            unknown.append(part)
            continue
        target = module.strip().removeprefix(f"{ROOT}.").replace("::", ".")
        (logger(target) if target and target != ROOT else logging.getLogger(ROOT)).setLevel(number)
    return unknown


class _Rotated(logging.FileHandler):
    """Keeps the file and its predecessors small. Of our own, because `logging.handlers` takes
    6 ms to import, of which every start would have to wait."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            if self.stream is not None and os.fstat(self.stream.fileno()).st_size > _SIZE:
                self._rotate()
        except OSError:
            self.handleError(record)

    def _rotate(self) -> None:
        names = [self.baseFilename, *(f"{self.baseFilename}.{n + 1}" for n in range(_BACKUPS))]
        for newer, older in reversed([*itertools.pairwise(names)]):
            if os.path.exists(newer):
                os.replace(newer, older)
        # Opened again by the next record.
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, timezone.utc).astimezone()
        module = record.name.removeprefix(f"{ROOT}.")
        line = f"{when:%Y-%m-%d %H:%M:%S}.{int(record.msecs):03d} {record.levelname:<7} {module}: "
        line += record.getMessage()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "module": record.name.removeprefix(f"{ROOT}."),
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)
