"""Handlers of the commands that search."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple

from holdfast.adapters.files.roots import Roots
from holdfast.adapters.search.events import EventReader, RipgrepEvent
from holdfast.adapters.search.transcoding import MARKS, Transcoded
from holdfast.app.authority.path_scopes import denial
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.search import SearchEnd
from holdfast.rules import search as rules
from holdfast.rules.files import REPOSITORIES, LocatedPath
from holdfast.rules.search import FilePlace
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.errors import HoldfastError, NotFound, Refused
from holdfast.vocabulary.search import FileCount, Hit, Search, SearchResult

_HIT_OVERHEAD = 16
_WINDOW = 2 * rules.LONGEST_SHOWN
_COMPARED = 256
_AT_ONCE = 250
"""Files that are open at a time."""
_UTF_8 = b"\xef\xbb\xbf"


class Ground(NamedTuple):
    """A place that is searched: a folder by its descriptor, and the paths in it."""

    folder: LocatedPath
    working_dir: str
    target: str


@handles(Search)
async def search(context: Context, command: Search, actor: Actor) -> SearchResult:
    roots = (await context.workspace.files.made_roots()).denying(denial(context, actor, command))
    located = roots.locate(command.path or ".")
    place = rules.file_place(command.cursor)
    given = [glob for glob in context.settings.now.files.deny if "/" not in glob]
    excluded = [*REPOSITORIES, *(glob for glob in given if not glob.startswith("!"))]
    async with context.searches, _ground(context, roots, located) as ground:
        collector = _COLLECTORS[command.mode](command, roots, ground.folder, place)
        words = rules.words_for_files(command, excluded, ground.target)
        ended = await context.workspace.ripgrep.run(words, ground.working_dir, collector.take)
        await context.in_thread(collector.finish)
        if isinstance(collector, _Files):
            ended = await _prove(context, command, collector, ended)
    is_complete = not collector.is_full and not ended.is_timeout
    last = collector.last or place
    return SearchResult(
        mode=command.mode,
        hits=collector.hits,
        files=collector.files,
        counts=collector.counts,
        complete=is_complete,
        cursor=None if is_complete or last is None else last.encode(),
        notes=ended.notes(),
    )


@asynccontextmanager
async def _ground(context: Context, roots: Roots, located: LocatedPath) -> AsyncIterator[Ground]:
    """Opened beneath its root, so that no link leads a search elsewhere."""
    stack = ExitStack()
    try:
        yield await context.in_thread(_open, stack, roots, located)
    finally:
        await context.in_thread(stack.close)


def _open(stack: ExitStack, roots: Roots, located: LocatedPath) -> Ground:
    try:
        descriptor = stack.enter_context(roots.opened_folder(located))
    except (NotFound, Refused):
        if not located.parts:
            raise
        with roots.opened(located):
            pass  # it is a file, and may be read
        folder = LocatedPath(located.root, located.parts[:-1])
        descriptor = stack.enter_context(roots.opened_folder(folder))
        return Ground(folder, _by_descriptor(descriptor, folder), f"./{located.parts[-1]}")
    return Ground(located, _by_descriptor(descriptor, located), "./")


def _by_descriptor(descriptor: int, located: LocatedPath) -> str:
    if os.path.isdir("/proc/self/fd"):
        return f"/proc/{os.getpid()}/fd/{descriptor}"
    return located.absolute


class _Collector:
    """Takes the output of ripgrep until there is enough, and drops denied and earlier hits."""

    def __init__(
        self, command: Search, roots: Roots, folder: LocatedPath, after: FilePlace | None
    ) -> None:
        self.command = command
        self.roots = roots
        self.folder = folder
        self.hits: list[Hit] = []
        self.files: list[str] = []
        self.counts: list[FileCount] = []
        self.is_full = False
        self.last: FilePlace | None = None
        self._after = None if after is None else after.key()
        self._size = 0
        self._judged: tuple[str, str | None] = ("", None)

    def take(self, data: bytes) -> bool:
        raise NotImplementedError

    def finish(self) -> None:
        """Do what needs the files themselves, after the search. A file that has become a link may
        lead anywhere, so nothing of it is answered."""
        self.complete()
        paths = {
            *(hit.path for hit in self.hits),
            *self.files,
            *(count.path for count in self.counts),
        }
        gone = {path for path in paths if not self._is_file(path)}
        if gone:
            self.hits = [hit for hit in self.hits if hit.path not in gone]
            self.files = [path for path in self.files if path not in gone]
            self.counts = [one for one in self.counts if one.path not in gone]

    def _is_file(self, told: str) -> bool:
        try:
            with self.roots.opened(self.roots.locate(told)):
                return True
        except NotFound:
            return True
        except HoldfastError:
            return False

    def complete(self) -> None:
        """Return what must be read again."""

    def located(self, path: str) -> LocatedPath:
        return LocatedPath(self.folder.root, (*self.folder.parts, *path.split("/")))

    def told(self, path: str) -> str | None:
        """Return a path as it is answered; None: it is denied, or is no readable file."""
        if self._judged[0] != path:
            located = self.located(path)
            is_denied = self.roots.denials.reason(located) is not None
            self._judged = path, None if is_denied else self.roots.told(located)
        return self._judged[1]

    def is_old(self, path: str, line: int) -> bool:
        return self._after is not None and (rules.path_key(path), line) <= self._after

    def has_room(self, size: int, count: int) -> bool:
        """Whether one more fits; the first always does."""
        self._size += size + _HIT_OVERHEAD
        fits = self._size <= self.command.max_bytes and count < self.command.limit
        return count == 0 or fits


class _Lines(_Collector):
    """Collects the lines that match, and the lines around them."""

    def __init__(
        self, command: Search, roots: Roots, folder: LocatedPath, after: FilePlace | None
    ) -> None:
        super().__init__(command, roots, folder, after)
        self._reader = EventReader()
        self._waiting: list[Hit] = []
        """Lines before a match that may not come."""
        self._matches = 0
        self._long: list[tuple[int, RipgrepEvent]] = []
        self._seen: dict[tuple[str, int], tuple[int, bytes]] = {}
        """Where ripgrep found each answered line, and how the line begins."""

    def take(self, data: bytes) -> bool:
        for event in self._reader.feed(data):
            if self.is_full:
                break
            if event.kind == "match":
                self._match(event)
            elif event.kind == "context":
                self._context(event)
            else:
                self._waiting.clear()
        return self.is_full

    def _match(self, event: RipgrepEvent) -> None:
        path = self.told(event.path)
        waiting, self._waiting = self._waiting, []
        if path is None or self.is_old(event.path, event.line):
            return
        shown = rules.shown_line(event.data, event.start or 0)
        hit = Hit(
            path=path,
            line=event.line,
            text=shown.text,
            column=(event.start or 0) + 1,
            cut=shown.is_cut or not event.is_whole,
        )
        self._seen[path, event.line] = event.offset, event.data[:_COMPARED]
        size = sum(len(one.text) + len(one.path) for one in (*waiting, hit))
        if not self.has_room(size, self._matches):
            self.is_full = True
            return
        self._matches += 1
        self.hits += waiting
        if not event.is_whole:
            self._long.append((len(self.hits), event))
        self.hits.append(hit)
        self.last = FilePlace(event.path, event.line)

    def _context(self, event: RipgrepEvent) -> None:
        path = self.told(event.path)
        if path is None:
            return
        shown = rules.shown_line(event.data, 0)
        hit = Hit(path=path, line=event.line, text=shown.text, cut=shown.is_cut)
        self._seen[path, event.line] = event.offset, event.data[:_COMPARED]
        last = self.last
        is_behind = (
            last is not None
            and last.path == event.path
            and last.line < event.line <= last.line + self.command.context
        )
        if is_behind:
            self.hits.append(hit)
            self._size += len(hit.text) + len(hit.path) + _HIT_OVERHEAD
        elif not self.is_old(event.path, event.line):
            self._waiting.append(hit)
            del self._waiting[: -self.command.context]

    def complete(self) -> None:
        """Read lines that are too long for ripgrep to print whole, around their matches."""
        for place, event in self._long:
            text = self._around(event)
            if text is not None:
                old = self.hits[place]
                self.hits[place] = Hit(
                    path=old.path, line=old.line, text=text, column=old.column, cut=True
                )
        self.hits = [hit for path in self._paths() for hit in self._proven(path)]

    def _paths(self) -> list[str]:
        return list(dict.fromkeys(hit.path for hit in self.hits))

    def _proven(self, path: str) -> list[Hit]:
        """Lines that are in the file of this name beneath its root. Ripgrep opens files by name: if
        a link stood there for a moment, it has read another one."""
        found = [hit for hit in self.hits if hit.path == path]
        try:
            with self.roots.opened(self.roots.locate(path)) as (descriptor, _):
                mark = os.pread(descriptor, len(_UTF_8), 0)
                wide = Transcoded(descriptor) if mark[:2] in MARKS else None
                # Offsets are counted without the mark that UTF-8 may begin with.
                marks = (0, len(_UTF_8)) if mark == _UTF_8 else (0,)
                return [hit for hit in found if self._is_there(descriptor, hit, wide, marks)]
        except (OSError, HoldfastError):
            return []

    def _is_there(
        self, descriptor: int, hit: Hit, wide: Transcoded | None, marks: tuple[int, ...]
    ) -> bool:
        offset, data = self._seen[hit.path, hit.line]
        if wide is not None:
            return wide.at(offset, len(data)) == data
        return any(os.pread(descriptor, len(data), offset + mark) == data for mark in marks)

    def _around(self, event: RipgrepEvent) -> str | None:
        if event.start is None or event.start < len(event.data) - rules.LONGEST_SHOWN:
            return None  # the match is in the part that was kept
        first = max(0, event.start - rules.LONGEST_SHOWN // 3)
        try:
            with self.roots.opened(self.located(event.path)) as (descriptor, _):
                data = os.pread(descriptor, _WINDOW, event.offset + first)
        except (OSError, NotFound, Refused):
            return None
        return window_text(data, event, first)


def window_text(
    data: bytes, event: RipgrepEvent, first: int, shown: bytes | None = None
) -> str | None:
    """Return a piece of a long line if it is the one that matched; `shown` replaces it."""
    start = (event.start or 0) - first
    if event.match[:100] != data[start : start + len(event.match[:100])]:
        return None  # the file is another one by now, or is not UTF-8
    line = (data if shown is None else shown).split(b"\n", 1)[0]
    told = rules.shown_line(line[: rules.LONGEST_SHOWN], start)
    return ("…" if first else "") + told.text.strip("\ufffd") + "…"


class _Files(_Collector):
    """Collects one answer for each file."""

    def __init__(
        self, command: Search, roots: Roots, folder: LocatedPath, after: FilePlace | None
    ) -> None:
        super().__init__(command, roots, folder, after)
        self.places: dict[str, FilePlace] = {}
        self._rest = b""
        self._tally = LineCounts()

    def _new(self, name: str, told: int) -> str | None:
        """Return the file's path if it belongs to the answer and there is room for it."""
        path = self.told(name)
        if path is None or self.is_old(name, 0):
            return None
        if not self.has_room(len(path), told):
            self.is_full = True
            return None
        self.last = self.places[path] = FilePlace(name, 0)
        return path


async def _prove(
    context: Context, command: Search, collector: _Files, ended: SearchEnd
) -> SearchEnd:
    """Tell only what is in the files of these names beneath their roots. Ripgrep opens files by
    name: if a link stood there for a moment, it has read another one. Here it opens what we
    opened. What could not be proven in time is left to the next page."""
    told = [*collector.files, *(one.path for one in collector.counts)]
    proven: dict[str, int] = {}
    for begin in range(0, len(told), _AT_ONCE):
        with ExitStack() as stack:
            part = told[begin : begin + _AT_ONCE]
            names = await context.in_thread(_opened, stack, collector.roots, part)
            if names is None:
                return ended
            if not names:
                continue
            tally, words = LineCounts(), rules.words_for_proof(command, list(names))
            again = await context.workspace.ripgrep.run(words, "/", tally.take)
            counted = {names[name]: count for name, count in tally.counts if name in names}
            proven |= counted
            if again.is_timeout:
                # Ripgrep counts file by file: after the last one that it printed, nothing is known.
                last = list(counted)[-1] if counted else told[begin - 1] if begin else None
                collector.last = collector.places[last] if last is not None else None
                ended = ended._replace(is_timeout=True)
                break
    collector.files = [path for path in collector.files if path in proven]
    counts = [one.path for one in collector.counts if one.path in proven]
    collector.counts = [FileCount(path=path, count=proven[path]) for path in counts]
    return ended


def _opened(stack: ExitStack, roots: Roots, told: list[str]) -> dict[str, str] | None:
    """The files that can be opened beneath their roots, by names that lead to nothing else; None
    where there are no such names."""
    if not os.path.isdir("/proc/self/fd"):
        return None
    found: dict[str, str] = {}
    for path in told:
        try:
            descriptor, _ = stack.enter_context(roots.opened(roots.locate(path)))
        except (OSError, HoldfastError):
            continue
        found[f"/proc/{os.getpid()}/fd/{descriptor}"] = path
    return found


class LineCounts:
    """How many lines of each file, as ripgrep counts them."""

    def __init__(self) -> None:
        self.counts: list[tuple[str, int]] = []
        self._rest = b""

    def take(self, data: bytes) -> bool:
        self._rest += data
        while True:
            name, nul, rest = self._rest.partition(b"\0")
            number, end, after = rest.partition(b"\n")
            if not nul or not end:
                return False
            self._rest = after
            self.counts.append((_path(name), int(number) if number.isdigit() else 0))


class _Paths(_Files):
    """Only the files."""

    def take(self, data: bytes) -> bool:
        *names, self._rest = (self._rest + data).split(b"\0")
        for name in names:
            if not self.is_full and (path := self._new(_path(name), len(self.files))) is not None:
                self.files.append(path)
        return self.is_full


class _Counts(_Files):
    """How many lines of each file."""

    def take(self, data: bytes) -> bool:
        self._tally.take(data)
        for name, count in self._tally.counts:
            if not self.is_full and (path := self._new(name, len(self.counts))) is not None:
                self.counts.append(FileCount(path=path, count=count))
        self._tally.counts.clear()
        return self.is_full


_COLLECTORS: dict[str, Callable[[Search, Roots, LocatedPath, FilePlace | None], _Collector]] = {
    "content": _Lines,
    "files": _Paths,
    "count": _Counts,
}


def _path(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape").removeprefix("./")
