"""Tells which services' files changed. Folders are walked in a thread, never on the loop.

On Linux the kernel reports changes (`inotify`). Elsewhere, and where polling is asked for, the
library watchfiles does, in a thread of its own. Both are created when the first service watches.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from holdfast.adapters.own_log import logger
from holdfast.rules.text.globs import Watched
from holdfast.vocabulary.specs.services import WatchSpec

STEP_MS = 100
"""How often watchfiles looks for changes."""
POLL_MS = 500
MOST_WALKS = 5
"""Folders that appear faster than they are walked are found with the next change."""
MANY = "(more changes at once than can be told)"
OnChanges = Callable[[str, list[str]], None]
OnFailed = Callable[[str, str], None]
_log = logger("file_watch")


class Changes(NamedTuple):
    """What a backend reports: changed files, new folders, folders that are gone."""

    files: list[str]
    created: list[str]
    moved: list[str]


class Backend(Protocol):
    """Watches folders, not what is below them."""

    def watch(self, folders: set[str]) -> None:
        """Watch these folders and no others. Called from a thread; raises OSError at a limit."""

    def close(self) -> None:
        """Stop watching. Called on the loop, perhaps during a `watch`."""


class FileWatch:
    """All watched files of one supervisor."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        never: tuple[str, ...],
        on_changes: OnChanges,
        on_failed: OnFailed,
    ) -> None:
        self._loop = loop
        self._never = never
        self._on_changes = on_changes
        self._on_failed = on_failed
        self._watched: dict[str, Watched] = {}
        self._specs: dict[str, WatchSpec] = {}
        self._backends: dict[bool, Backend] = {}
        self._known: dict[bool, set[str]] = {False: set(), True: set()}
        self._thread = ThreadPoolExecutor(1, "file-watch")
        self._created: set[str] = set()
        self._is_walking = False
        self._is_stale = False
        self._is_closed = False
        self._opening = threading.Lock()

    @property
    def folders(self) -> int:
        """Return how many folders are watched."""
        return sum(map(len, self._known.values()))

    def set(self, service: str, spec: WatchSpec | None) -> None:
        """Set what a service watches from now on."""
        if self._specs.get(service) == spec:
            return
        if spec is None:
            del self._specs[service], self._watched[service]
        else:
            self._specs[service], self._watched[service] = spec, Watched(spec, self._never)
        self._walk()

    def close(self) -> None:
        """Stop watching, even while folders are being walked."""
        with self._opening:
            self._is_closed = True
        for backend in self._backends.values():
            backend.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    # Walking

    def _walk(self) -> None:
        """Find the folders anew; a request during a walk causes one more walk afterwards."""
        self._is_stale = True
        if self._is_walking or self._is_closed:
            return
        self._is_walking, self._is_stale = True, False
        ways: dict[bool, dict[str, Watched]] = {False: {}, True: {}}
        for name, spec in self._specs.items():
            ways[spec.polling or not sys.platform.startswith("linux")][name] = self._watched[name]
        created, self._created = tuple(self._created), set()
        work = self._loop.run_in_executor(self._thread, self._find, ways, created)
        work.add_done_callback(self._walked)

    def _find(
        self, ways: dict[bool, dict[str, Watched]], created: tuple[str, ...]
    ) -> tuple[list[str], dict[str, str]]:
        """Walk and watch, in the thread.

        Returns files that appeared before they were watched, and the reason for each service whose
        watching failed.
        """
        files: list[str] = []
        failed: dict[str, str] = {}
        for is_library, watched in ways.items():
            folders, before = walk(watched.values()), self._known[is_library]
            if not folders and not before:
                continue
            try:
                for _ in range(MOST_WALKS):
                    if (backend := self._backend(is_library)) is None:
                        return [], {}
                    backend.watch(folders)
                    # A change between walking and watching would never be reported.
                    seen, folders = folders, walk(watched.values())
                    if folders == seen:
                        break
            except OSError as error:
                failed |= dict.fromkeys(watched, explained(error, len(folders)))
            self._known[is_library] = folders
            fresh = [folder for folder in folders if f"{folder}/".startswith(created)]
            files += [path for folder in fresh for path in _files_in(folder)]
        return files, failed

    def _walked(self, work: asyncio.Future[tuple[list[str], dict[str, str]]]) -> None:
        self._is_walking = False
        if self._is_closed or work.cancelled():
            return
        if (error := work.exception()) is not None:
            _log.error("files cannot be watched", exc_info=error)
            failed = dict.fromkeys(self._specs, str(error))
            files: list[str] = []
        else:
            files, failed = work.result()
        for service, why in failed.items():
            self._on_failed(service, why)
        self._changed(files)
        if self._is_stale:
            self._walk()

    def _backend(self, is_library: bool) -> Backend | None:
        """Return the backend, created when it is first needed; None: watching has ended."""
        with self._opening:
            if self._is_closed:
                return None
            if is_library not in self._backends:
                self._backends[is_library] = self._new_backend(is_library)
            return self._backends[is_library]

    def _new_backend(self, is_library: bool) -> Backend:
        if not is_library:
            return KernelBackend(self._loop, self._seen, self._overflown)
        is_polling = sys.platform.startswith("linux") or any(
            spec.polling for spec in self._specs.values()
        )
        return LibraryBackend(self._loop, self._seen, is_polling)

    # Changes

    def _seen(self, changes: Changes) -> None:
        """Take changes from a backend, on the loop."""
        created = [folder for folder in changes.created if self._is_relevant(folder)]
        self._created.update(f"{folder}/" for folder in created)
        for folder in changes.moved:
            # Another folder may have taken its place meanwhile.
            self._created.add(f"{folder}/")
            for service, watched in list(self._watched.items()):
                if watched.enters(folder):
                    self._on_changes(service, [folder])
        if created or changes.moved:
            self._walk()
        self._changed(changes.files)

    def _overflown(self) -> None:
        for service in list(self._watched):
            self._on_changes(service, [MANY])
        self._walk()

    def _is_relevant(self, folder: str) -> bool:
        return any(
            watched.enters(folder)
            or any(f"{base}/".startswith(f"{folder}/") for base in watched.bases)
            for watched in self._watched.values()
        )

    def _changed(self, paths: list[str]) -> None:
        for service, watched in list(self._watched.items()) if paths else ():
            if meant := [path for path in paths if watched.matches(path)]:
                self._on_changes(service, meant)


def walk(watched: Iterable[Watched]) -> set[str]:
    """Return the folders in which files of these patterns may change.

    For a folder that does not exist yet, its nearest existing parent counts.
    """
    found: set[str] = set()
    for one in watched:
        rest: list[str] = []
        for pattern in one.patterns:
            if pattern.is_plain:
                # Also its own folder: it may be a file, or come back after it was deleted.
                found.add(_nearest(os.path.dirname(pattern.base)))
            if os.path.isdir(pattern.base):
                rest.append(pattern.base)
            else:
                found.add(_nearest(pattern.base))
        seen: set[str] = set()
        while rest:
            folder = rest.pop()
            if folder not in seen:
                seen.add(folder)
                rest += [path for path in _folders_in(folder) if one.enters(path)]
        found |= seen
    return found


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _files_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _nearest(folder: str) -> str:
    while not os.path.isdir(folder) and folder != "/":
        folder = os.path.dirname(folder)
    return folder


def explained(error: OSError, folders: int) -> str:
    """Return why files cannot be watched, and what helps."""
    limits = {errno.ENOSPC: "max_user_watches", errno.EMFILE: "max_user_instances"}
    name = limits.get(error.errno or 0)
    if name is None:
        return f"{folders} folders cannot be watched: {error.strerror or error}"
    try:
        with open(f"/proc/sys/fs/inotify/{name}", encoding="ascii") as file:
            allowed = file.read().strip()
    except OSError:
        allowed = "unknown"
    larger = 524288 if name == "max_user_watches" else 1024
    return (
        f"the kernel's limit is reached (fs.inotify.{name} is {allowed}, {folders} folders are "
        f"wanted): raise it with `sysctl fs.inotify.{name}={larger}`, ignore more folders, or "
        "write polling: true"
    )


class KernelBackend:
    """inotify; the loop reads its descriptor."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_seen: Callable[[Changes], None],
        on_overflow: Callable[[], None],
    ) -> None:
        from holdfast.adapters.watch.inotify import Inotify

        self._loop = loop
        self._on_seen = on_seen
        self._on_overflow = on_overflow
        self._inotify = Inotify()
        self._closing = threading.Lock()
        self._is_closed = False
        loop.call_soon_threadsafe(self._listen)

    def watch(self, folders: set[str]) -> None:
        self._each(self._inotify.drop, self._inotify.folders - folders)
        self._each(self._inotify.add, sorted(folders))

    def close(self) -> None:
        with self._closing:
            self._is_closed = True
            self._loop.remove_reader(self._inotify.fd)
            self._inotify.close()

    def _each(self, do: Callable[[str], object], folders: Iterable[str]) -> None:
        """Call `do` for each folder, unless closed: the number of a closed descriptor may be
        reused.
        """
        for folder in folders:
            with self._closing:
                if self._is_closed:
                    return
                do(folder)

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._inotify.fd, self._readable)

    def _readable(self) -> None:
        paths: dict[str, None] = {}
        changes = Changes([], [], [])
        for seen in self._inotify.read():
            if seen.is_overflow:
                self._on_overflow()
                continue
            path = os.path.join(seen.folder, seen.name).rstrip("/")
            if not seen.is_folder:
                paths[path] = None
            elif seen.is_new:
                changes.created.append(path)
            elif seen.is_moved_away:
                changes.moved.append(path)
        self._on_seen(changes._replace(files=list(paths)))


class LibraryBackend:
    """watchfiles in a thread, for other systems and for polling."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_seen: Callable[[Changes], None],
        is_polling: bool,
    ) -> None:
        self._loop = loop
        self._on_seen = on_seen
        self._is_polling = is_polling
        self._changing = threading.Lock()
        self._is_closed = False
        self._stop = threading.Event()

    def watch(self, folders: set[str]) -> None:
        from watchfiles._rust_notify import RustNotify

        listed = sorted(folder for folder in folders if os.path.isdir(folder))
        self._stop.set()
        if not listed:
            return
        notify = RustNotify(listed, False, self._is_polling, POLL_MS, False, True)
        # macOS reports real paths, whatever links the patterns lead through.
        names = {os.path.realpath(folder): folder for folder in listed}
        with self._changing:
            self._stop = stop = threading.Event()
            if self._is_closed:
                stop.set()
        work = (notify, stop, names)
        threading.Thread(target=self._wait, args=work, name="watchfiles", daemon=True).start()

    def close(self) -> None:
        with self._changing:
            self._is_closed = True
            self._stop.set()

    def _wait(self, notify: object, stop: threading.Event, names: dict[str, str]) -> None:
        while not stop.is_set():
            found = notify.watch(STEP_MS, STEP_MS, 0, stop)  # type: ignore[attr-defined]
            if not isinstance(found, set):
                break
            changes = Changes([], [], [])
            for _, told in found:
                folder, name = os.path.split(told)
                path = os.path.join(names.get(folder, folder), name)
                (changes.created if os.path.isdir(path) else changes.files).append(path)
            try:
                self._loop.call_soon_threadsafe(self._on_seen, changes)
            except RuntimeError:
                break
        notify.close()  # type: ignore[attr-defined]
