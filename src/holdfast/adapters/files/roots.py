"""The roots in force: turns paths into places, refuses what is denied, explains errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from holdfast.adapters.files.beneath import FOLDER, NoFile, Opener, best, open_file
from holdfast.rules.authority.path_scopes import shown
from holdfast.rules.files import Denials, LocatedPath, Root, locate, told
from holdfast.vocabulary.errors import Failed, HoldfastError, NotFound, Refused, UsageError
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.files import FilesSpec

DEFAULT_ROOT = "project"
MOST_NAMES = 2000
Never = Callable[[], Sequence[tuple[str, str]]]
"""Files and folders that are never opened, each with the reason."""

DEEPEST = 100
"""The most names in the path of a file that is changed.

Making and removing folders takes longer the deeper they are, and one thread does it for everybody.
"""


class Roots:
    """The roots of one configuration."""

    def __init__(
        self, spec: FilesSpec, project: str, never: Never, opener: Opener | None = None
    ) -> None:
        self.roots = [
            Root(root.name, os.path.realpath(root.path), root.path, root.write)
            for root in spec.roots
        ] or [Root(DEFAULT_ROOT, os.path.realpath(project), project)]
        denied = [(place, why) for path, why in never() for place in _places_of(path)]
        self.denials = Denials(spec.deny, denied)
        self.opener = opener or best()

    def denying(self, reason: Callable[[LocatedPath], str | None] | None) -> Roots:
        """Return the same roots for a caller to whom more is denied."""
        if reason is None:
            return self
        roots = copy(self)
        roots.denials = self.denials.and_also(reason)
        return roots

    def locate(self, path: str, root: str | None = None) -> LocatedPath:
        """Return the place of a path; raises Refused if it may not be looked at."""
        located = locate(self.roots, path, root)
        self.admit(located)
        return located

    def admit(self, located: LocatedPath) -> None:
        """Raise Refused if it is denied."""
        reason = self.denials.reason(located)
        if reason is not None:
            raise Refused(f'"{self.shown(located)}" is denied: {reason}', "", self._about(located))

    def admit_change(self, located: LocatedPath) -> None:
        """Raise Refused if it may not be changed."""
        self.admit(located)
        for root in (located.root, self._innermost(located)):
            if not root.is_writable:
                raise Refused(
                    f'the root "{root.name}" is read-only',
                    "`files: {roots: {NAME: {path: …, write: true}}}` lets files be changed",
                    self._about(located),
                )
        if not located.parts:
            raise UsageError("this is a root itself, not a file")
        if len(located.parts) > DEEPEST:
            raise UsageError(
                f"this file is in {len(located.parts) - 1} nested folders;"
                f" files are changed in at most {DEEPEST - 1}",
                "use fewer folders",
            )

    def _innermost(self, located: LocatedPath) -> Root:
        """Return the innermost root: a root may lie in another one and be read-only."""
        absolute = f"{located.absolute}/".casefold()
        within = [
            root
            for root in self.roots
            if absolute.startswith(f"{root.path.rstrip('/')}/".casefold())
        ]
        return max(within, key=lambda root: len(root.path), default=located.root)

    def told(self, located: LocatedPath) -> str:
        return told(self.roots, located)

    def shown(self, located: LocatedPath) -> str:
        return shown(self.told(located))

    def _about(self, located: LocatedPath) -> dict[str, str]:
        return {"path": self.told(located)}

    @contextmanager
    def opened_root(self, root: Root) -> Iterator[int]:
        try:
            descriptor = os.open(root.path, FOLDER)
        except OSError as error:
            raise NotFound(
                f'the root "{root.name}" ({root.path}) cannot be opened: {error.strerror}'
            ) from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def opened(self, located: LocatedPath) -> Iterator[tuple[int, os.stat_result]]:
        """Open a file for reading."""
        with self.opened_root(located.root) as root, self.explained(located):
            descriptor, facts = open_file(self.opener, root, located.parts)
            try:
                yield descriptor, facts
            finally:
                os.close(descriptor)

    @contextmanager
    def opened_folder(self, located: LocatedPath) -> Iterator[int]:
        with self.opened_root(located.root) as root, self.explained(located):
            descriptor = self.opener(root, located.parts, FOLDER)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def explained(self, located: LocatedPath) -> Iterator[None]:
        """Turn errors of the system into errors that say what to do."""
        try:
            yield
        except OSError as error:
            raise self.error_of(error, located) from None

    def error_of(self, error: OSError, located: LocatedPath) -> HoldfastError:
        name, about = self.shown(located), self._about(located)
        if isinstance(error, NoFile):
            hint = "`list_files` lists it" if error.kind == "directory" else "only files are read"
            return Refused(f'"{name}" is a {error.kind}, not a file', hint, about)
        if error.errno == errno.ENOENT:
            return NotFound(f'there is no "{name}"', self._guess(located), about)
        if error.errno == errno.ELOOP:
            return Refused(*self._link(located), about)
        if error.errno == errno.EXDEV:
            return Refused(
                f'"{name}" is on another mount than its root',
                "make that folder a root of its own",
                about,
            )
        if error.errno == errno.ENOTDIR:
            return NotFound(f'there is no "{name}": a part of it is no folder', "", about)
        if error.errno == errno.ENAMETOOLONG:
            return UsageError(f'"{name}": a name is too long for the file system', "", about)
        if error.errno in (errno.EACCES, errno.EPERM):
            return Refused(f'"{name}": the system does not permit it', "", about)
        if error.errno in (errno.ENXIO, errno.ENODEV):
            return Refused(f'"{name}" is no file', "only files are read", about)
        return Failed(f'"{name}": {error.strerror or error}', "", about)

    def _link(self, located: LocatedPath) -> tuple[str, str]:
        """Return which of the names is a link, and where it leads."""
        try:
            with self.opened_root(located.root) as root:
                for depth in range(1, len(located.parts) + 1):
                    target = self._target(root, located.parts[:depth])
                    if target is not None:
                        return self._about_link(located, depth, target)
        except (OSError, HoldfastError):
            pass
        return f'"{self.shown(located)}" leads through a link', "links are not followed"

    def _target(self, root: int, parts: tuple[str, ...]) -> str | None:
        folder = self.opener(root, parts[:-1], FOLDER)
        try:
            return os.readlink(parts[-1], dir_fd=folder)
        except OSError:
            return None
        finally:
            os.close(folder)

    def _about_link(self, located: LocatedPath, depth: int, target: str) -> tuple[str, str]:
        link = LocatedPath(located.root, located.parts[:depth])
        message = f'"{self.shown(link)}" is a link, and links are not followed'
        folder = os.path.dirname(link.absolute)
        led = os.path.normpath(os.path.join(folder, target, *located.parts[depth:]))
        try:
            meant = locate(self.roots, led)
        except HoldfastError:
            return message, "it leads out of the roots"
        return message, f'it leads to "{self.shown(meant)}": name that'

    def _guess(self, located: LocatedPath) -> str:
        """Return a hint with a similar name in the same folder."""
        if not located.parts:
            return ""
        folder = LocatedPath(located.root, located.parts[:-1])
        try:
            with self.opened_root(located.root) as root:
                descriptor = self.opener(root, folder.parts, FOLDER)
                try:
                    with os.scandir(descriptor) as found:
                        names = [one.name for one, _ in zip(found, range(MOST_NAMES), strict=False)]
                finally:
                    os.close(descriptor)
        except (OSError, HoldfastError):
            return "`list_files` lists what there is"
        near = closest(located.parts[-1], names)
        if near is None:
            return "`list_files` lists what there is"
        meant = LocatedPath(located.root, (*folder.parts, near))
        if self.denials.reason(meant) is not None:
            return "`list_files` lists what there is"
        return f'did you mean "{self.shown(meant)}"?'


_Made = tuple[tuple[FilesSpec, tuple[tuple[str, str], ...]], Roots]


class CurrentRoots:
    """The roots of the settings in force.

    Making them resolves links on a disk that may be slow, so it happens in a thread.
    """

    def __init__(
        self, settings: Callable[[], FilesSpec], project: str, never: Never, opener: Opener
    ) -> None:
        self._settings = settings
        self._project = project
        self._never = never
        self._opener = opener
        self._made: _Made | None = None
        self._foreseen: _Made | None = None

    def made(self) -> Roots | None:
        """Return them without waiting; None: they are not made yet."""
        key = self._settings(), tuple(self._never())
        for made in (self._made, self._foreseen):
            if made is not None and made[0] == key:
                self._made = made
                return made[1]
        return None

    def now(self) -> Roots:
        if (roots := self.made()) is None:
            self._made = self._make(self._settings(), self._never())
            roots = self._made[1]
        return roots

    def foresee(self, spec: FilesSpec, never: Sequence[tuple[str, str]]) -> None:
        """Make the roots of settings that will be in force soon."""
        self._foreseen = self._make(spec, never)

    def _make(self, spec: FilesSpec, never: Sequence[tuple[str, str]]) -> _Made:
        return (spec, tuple(never)), Roots(spec, self._project, lambda: never, self._opener)


def _places_of(path: str) -> set[str]:
    """Return where a path lies: the name itself, which may be a link, and what it leads to."""
    folder, name = os.path.split(path)
    return {os.path.join(os.path.realpath(folder), name), os.path.realpath(path)}
