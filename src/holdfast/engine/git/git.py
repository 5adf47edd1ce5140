"""Runs git as a task: opens the repository, keeps it from running code, runs one command.

Owns what is known of each repository's configuration, which is read again whenever its files
change, and a lock for each repository that is changed. Decides nothing about permission.

Git gets descriptors instead of names (its folder, GIT_DIR, GIT_COMMON_DIR and the objects), so that
a folder that is swapped for a link leads it nowhere else. But git asks for the name of its folder,
goes there again, and follows paths below it. So the kernel confines it, by Landlock, to what was
opened. Without Landlock the names are compared before and afterwards; what happens in between is
not noticed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.adapters.files.roots import Roots
from holdfast.adapters.git import repository as places
from holdfast.adapters.git.parsing import RawChange
from holdfast.adapters.git.repository import Repository
from holdfast.adapters.own_log import logger
from holdfast.engine.tasks import Confinement, Task, TaskResult, Tasks
from holdfast.rules import git as safety
from holdfast.rules.files import LocatedPath
from holdfast.rules.git import Entry, RepositoryPermissions
from holdfast.rules.text.excerpts import Excerpt
from holdfast.secrets.redaction import redact
from holdfast.system import landlock
from holdfast.vocabulary.errors import Failed, NotFound, Refused, UsageError
from holdfast.vocabulary.specs.git import GitSpec

OLDEST_GIT = (2, 32)
"""The first version that can be told to read no configuration but the repository's."""
READ_SECONDS = 25.0
CHANGE_SECONDS = 45.0
MOST_PARSED = 16 << 20
_MOST_KNOWN = 100
_MOST_OVERRIDES = 1000
"""Git searches all of them for each one; no honest configuration has more."""
_MOST_LINKS = 200
_LONGEST_LINK = 4096
T = TypeVar("T")
_INDEX = "GIT_INDEX_FILE"
_DEVICES = ("/dev/null", "/dev/zero")
_SYSTEM = (
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec"),
    *("/usr/share", "/usr/local/bin", "/usr/local/lib", "/usr/local/libexec", "/usr/local/share"),
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/localtime", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf"),
    *("/dev/urandom", "/sys/devices/system/cpu/online"),
)
"""None of these is a folder in which people keep repositories."""
_HELD = re.compile(r"/proc/self/fd/\d+")
_HELD_STORE = re.compile(_HELD.pattern + r"(?=/(?:[0-9a-f]{2}|pack|info/alternates)\b)")
"""How git's messages name the folders that it got as descriptors."""
_log = logger("git")
_PASSED = ("TZ", "TMPDIR", "XDG_CONFIG_HOME")


class Output(NamedTuple):
    """How a command of git ended."""

    code: int | None
    out: bytes
    err: str
    is_cut: bool = False
    """Whether it would have printed more than was wanted."""

    @property
    def is_success(self) -> bool:
        return self.code == 0 or self.is_cut

    def line(self) -> str:
        return self.out.decode("utf-8", "surrogateescape").strip()


class NoGit(Failed):
    """There is no git to run."""


class _RepositoryFacts(NamedTuple):
    entries: list[Entry]
    filters: list[str]
    files: tuple[str, ...]
    """The files that its configuration includes."""


class Git:
    """Runs git in repositories."""

    def __init__(
        self,
        tasks: Tasks,
        in_thread: Callable[..., Awaitable[Any]],
        environ: Callable[[], Mapping[str, str]],
        spec: Callable[[], GitSpec],
    ) -> None:
        self._tasks = tasks
        self._in_thread = in_thread
        self._environ = environ
        self._spec = spec
        self._known: dict[tuple[object, ...], _RepositoryFacts] = {}
        self._users: dict[tuple[object, ...], list[Entry]] = {}
        self._users_key: tuple[object, ...] = ()
        self._turns: dict[str, asyncio.Lock] = {}
        self._program: str | None = None
        self._system: tuple[str, ...] | None = None
        """The parts of the system that git may reach; None: it is not confined."""

    @asynccontextmanager
    async def opened(
        self, start: LocatedPath, roots: Roots, *, may_be_missing: bool = False
    ) -> AsyncIterator[Repository]:
        """Open the repository of a folder, or of a file that may not exist yet."""
        looking = self.opened_and(start, roots, lambda _: None, may_be_missing=may_be_missing)
        async with looking as (repository, _):
            yield repository

    @asynccontextmanager
    async def opened_and(
        self,
        start: LocatedPath,
        roots: Roots,
        look: Callable[[Repository], T],
        *,
        may_be_missing: bool = False,
    ) -> AsyncIterator[tuple[Repository, T]]:
        """Open it, and call `look` in the same thread."""
        users_files, spec = _users_files(self._home(), self._passed()), self._spec()

        def find() -> tuple[ExitStack, Repository, T]:
            with ExitStack() as stack:
                found = places.find(
                    start,
                    roots,
                    stack,
                    allow_outside=spec.allow_outside,
                    may_be_missing=may_be_missing,
                )
                self._users_key = tuple((path, _stamp(path)) for path in users_files)
                return stack.pop_all(), found, look(found)
            raise AssertionError("unreachable")

        finding = asyncio.ensure_future(self._in_thread(find))
        try:
            stack, repository, seen = await asyncio.shield(finding)
        except asyncio.CancelledError:
            finding.add_done_callback(_close_unused)
            raise
        try:
            yield repository, seen
        finally:
            stack.close()

    def turn(self, repository: Repository) -> asyncio.Lock:
        """Return the lock for changing a repository: git's own locks fail instead of waiting."""
        if len(self._turns) > _MOST_KNOWN:
            self._turns = {key: lock for key, lock in self._turns.items() if lock.locked()}
        return self._turns.setdefault(repository.common.name, asyncio.Lock())

    async def filters(self, repository: Repository) -> list[str]:
        """Return the filters of its configuration that are not run."""
        if self._spec().allow_programs:
            return []
        return (await self._learn(repository)).filters

    async def excludes_file(self, repository: Repository) -> str | None:
        """Return the path of the user's file with more ignore patterns."""
        users = await self._users_entries(repository)
        entries = dict([*users, *(await self._learn(repository)).entries])
        return entries.get("core.excludesfile")

    async def ignore_files(self, repository: Repository) -> list[str] | None:
        """Return the user's files that say what is ignored, or how files are converted.

        None: they may change without a trace, or are not known.
        """
        known = await self._learn(repository)
        users = await self._users_entries(repository)
        if safety.has_includes([*users, *known.entries]):
            return None
        entries = dict([*users, *known.entries])
        home = self._home()
        place = self._passed().get("XDG_CONFIG_HOME") or f"{home}/.config"
        given = [entries.get(key) or "" for key in ("core.excludesfile", "core.attributesfile")]
        named = [text.replace("~", home, 1) if text[:2] == "~/" else text for text in given if text]
        if any(text.startswith(("~", "%")) for text in named):
            return None
        named = [os.path.join(repository.place.absolute, text) for text in named]
        return [*named, f"{place}/git/ignore", f"{place}/git/attributes"]

    def settings_key(self) -> tuple[object, ...]:
        """Return a key that changes whenever git may answer differently."""
        return self._spec(), self._users_key, self._program

    async def configured(self, repository: Repository) -> dict[str, str]:
        return dict((await self._learn(repository)).entries)

    async def run(
        self,
        repository: Repository,
        *words: str,
        seconds: float = READ_SECONDS,
        excerpt: Excerpt | None = None,
        most: int = MOST_PARSED,
        more: Mapping[str, str] | None = None,
        config: Sequence[Entry] = (),
        is_guarded: bool = True,
    ) -> Output:
        """Run one command of git to its end, or until there is enough output.

        Without `is_guarded` the repository's configuration plays no part.
        """
        known = await self._learn(repository)
        users = await self._users_entries(repository)
        spec = self._spec()
        if is_guarded:
            allowed = RepositoryPermissions(spec.allow_hooks, spec.allow_programs)
            config = [
                *safety.users_own(users, known.entries),
                *safety.overrides(known.entries, allowed),
                *config,
            ]
        env = safety.environment(
            git_dir=repository.git_dir,
            work_tree=".",
            path=self._path(),
            home=self._home(),
            config=config,
            more={**_places(repository), **self._passed(), **(more or {})},
        )
        confinement = None
        if not spec.allow_hooks and not spec.allow_programs:
            files = [
                *self._pattern_files([*users, *known.entries], repository),
                *known.files,
            ]
            confinement = self._confinement(repository, files, more or {})
        if confinement is None:
            await self._in_thread(repository.check_same)
        output = await self._run(words, repository, env, seconds, excerpt, most, confinement)
        if confinement is None:
            await self._in_thread(repository.check_same)
        return output

    async def check(self, repository: Repository, *words: str, **options: Any) -> Output:
        """Run a command; raises if git fails."""
        output = await self.run(repository, *words, **options)
        if not output.is_success:
            raise failure_of(output, words[0])
        return output

    async def commit_of(self, repository: Repository, revision: str) -> str:
        """Return the commit that a revision means; raises if there is none."""
        text = safety.check_revision(revision)
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
        output = await self.run(repository, *words)
        if not output.is_success or not output.line().isalnum():
            raise NotFound(f'no commit "{revision[:80]}"', "`git_log` and `git_branches` list them")
        return output.line()

    async def link_targets(
        self, repository: Repository, changes: Sequence[RawChange]
    ) -> dict[str, str]:
        """Return the targets of the paths that would become symbolic links."""
        links = {one.path: one.blob for one in changes if one.is_link}
        blobs = dict.fromkeys(links.values(), "")
        if len(blobs) > _MOST_LINKS:
            raise Refused(f"this would make more than {_MOST_LINKS} links", "do it with git itself")
        for blob in blobs:
            words = ("cat-file", "blob", blob)
            output = await self.check(repository, *words, most=_LONGEST_LINK)
            blobs[blob] = os.fsdecode(output.out)
        return {path: blobs[blob] for path, blob in links.items()}

    async def _learn(self, repository: Repository) -> _RepositoryFacts:
        """Return the repository's configuration as git reads it now: an older answer may be
        outdated, and name other programs.
        """
        repository = await self._in_thread(places.as_it_is, repository)
        known = self._known.get(repository.signature)
        if known is not None:
            return known
        await self._find_program()
        env = safety.environment(
            git_dir=repository.git_dir,
            work_tree=".",
            path=self._path(),
            home=self._home(),
            config=(),
            more=_places(repository),
        )
        words = ("config", "--list", "-z", "--includes", "--show-origin")
        output = await self._run(words, repository, env, READ_SECONDS, None, MOST_PARSED)
        if output.code != 0 or output.is_cut:
            raise failure_of(output, "config")
        entries, origins = safety.parse_listing(output.out)
        spec = self._spec()
        files = await self._in_thread(self._check_origins, repository, origins)
        if len(safety.overrides(entries, RepositoryPermissions())) > _MOST_OVERRIDES:
            raise Refused("the configuration of this repository names too many programs")
        if safety.is_unsteady(entries) and not spec.allow_programs:
            raise Refused(
                "the configuration of this repository depends on its branch or remotes",
                "remove its includeIf, or allow programs: `git: {allow_programs: true}`",
            )
        if spec.allow_hooks or spec.allow_programs:
            await self._in_thread(_check_owner, repository)
        known = _RepositoryFacts(entries, safety.filters_of(entries), files)
        if not safety.has_includes(entries):
            # An included file may change without a trace in the repository itself.
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[repository.signature] = known
        return known

    def _check_origins(self, repository: Repository, origins: Sequence[str]) -> tuple[str, ...]:
        """Return the files that the configuration includes; raises Refused for one below no root,
        or denied.
        """
        own = tuple(f"{folder}/" for folder in (repository.git_dir, repository.common_dir))
        found = []
        for origin in origins:
            path = os.path.join(repository.place.absolute, origin)
            if not origin.startswith(own) or "/../" in origin:
                why = f"its configuration includes {os.path.realpath(path)}"
                places.check_file(repository, path, why, allow_outside=self._spec().allow_outside)
                found.append(os.path.realpath(path))
        return tuple(found)

    def _confinement(
        self, repository: Repository, files: Sequence[str], more: Mapping[str, str]
    ) -> Confinement | None:
        """Return what git may reach: the system's programs, what was opened, and our own files."""
        if self._system is None:
            return None
        own = [more["GIT_DIR"]] if "GIT_DIR" in more else []
        own += [os.path.dirname(more[_INDEX])] if _INDEX in more else []
        opened = dict.fromkeys(anchor.path for anchor in repository.anchors)
        held = {"GIT_DIR": repository.git_dir, **_places(repository)}
        held = {name: path for name, path in held.items() if name not in more}
        return Confinement((*self._system, *files), (*_DEVICES, *opened, *own), held)

    def _pattern_files(self, entries: Sequence[Entry], repository: Repository) -> list[str]:
        """Return the files that say what is ignored, and which attributes files have."""
        home = self._home()
        place = self._passed().get("XDG_CONFIG_HOME") or f"{home}/.config"
        found = [f"{place}/git/ignore", f"{place}/git/attributes"]
        for key, value in entries:
            if key in ("core.excludesfile", "core.attributesfile") and value:
                path = value.replace("~", home, 1) if value[:2] == "~/" else value
                found.append(os.path.join(repository.place.absolute, path))
        return found

    async def _users_entries(self, repository: Repository) -> list[Entry]:
        """Return the harmless entries of the user's own configuration for this repository, and its
        includes, which may depend on where the repository is.
        """
        known = self._users.get(self._users_key)
        if known is not None:
            return known
        home, passed = self._home(), self._passed()
        env = {"PATH": self._path(), "HOME": home, "LC_ALL": "C", **passed}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": repository.git_dir}
        env["GIT_WORK_TREE"] = "."
        words = ("config", "--global", "--list", "-z", "--includes", "--show-origin")
        output = await self._run(words, repository, env, READ_SECONDS, None, MOST_PARSED)
        entries = safety.parse_listing(output.out)[0] if output.code == 0 else []
        found = [
            entry
            for entry in entries
            if entry[0] in safety.USERS_OWN or safety.has_includes([entry])
        ]
        if not safety.has_includes(found):
            self._users = {self._users_key: found}
        return found

    async def _run(
        self,
        words: Sequence[str],
        repository: Repository,
        env: dict[str, str],
        seconds: float,
        excerpt: Excerpt | None,
        most: int,
        confinement: Confinement | None = None,
    ) -> Output:
        kept = bytearray()
        is_cut = False

        def take(stream: str, data: bytes) -> bool:
            nonlocal is_cut
            if stream != "out":
                return False
            if excerpt is not None:
                is_cut = excerpt.feed(data)
                return is_cut
            kept.extend(data[: most - len(kept)])
            is_cut = len(kept) >= most
            return is_cut

        program = self._program or await self._find_program()
        argv = (program, "--no-pager", *words)
        folder = repository.work_tree
        task = Task("git", argv, folder, seconds, env, on_output=take, confinement=confinement)
        result = await self._tasks.run(task)
        _raise_for(result, is_cut, words[0])
        err = redact(_with_names(result.err.decode("utf-8", "replace"), repository))
        return Output(result.code, bytes(kept), err, is_cut)

    async def _find_program(self) -> str:
        if self._program is not None:
            return self._program
        wanted = self._spec().program or "git"
        found: str | None = await self._in_thread(shutil.which, wanted, os.X_OK, self._path())
        if found is None:
            raise NoGit("git is not installed, or not in PATH", "install git 2.32 or newer")
        task = Task("git", (found, "--version"), "/", READ_SECONDS, {"LC_ALL": "C"})
        text = (await self._tasks.run(task)).out.decode(errors="replace").strip()
        if _version_of(text) < OLDEST_GIT:
            needed = ".".join(map(str, OLDEST_GIT))
            raise Failed(f"{text or 'this git'} is too old to be kept from running code",
                         f"install git {needed} or newer")  # fmt: skip
        if self._system is None and await self._in_thread(landlock.version):
            # A git in an unusual place may need more than we know: then it is not confined.
            where = (await self._tasks.run(replace(task, argv=(found, "--exec-path")))).out
            system: tuple[str, ...] = await self._in_thread(_system, found, os.fsdecode(where))
            confined = replace(task, confinement=Confinement(system, _DEVICES))
            if (await self._tasks.run(confined)).is_success:
                self._system = system
            else:
                _log.warning("git does not run confined by Landlock: it is run without")
        self._program = found
        return found

    def _path(self) -> str:
        places = [*self._environ().get("PATH", "").split(":"), "/usr/local/bin", "/usr/bin", "/bin"]
        # A relative folder would mean one of the repository's.
        return ":".join(dict.fromkeys(place for place in places if place.startswith("/")))

    def _home(self) -> str:
        return self._environ().get("HOME") or "/"

    def _passed(self) -> dict[str, str]:
        environ = self._environ()
        return {name: environ[name] for name in _PASSED if environ.get(name)}


def failure_of(output: Output, what: str) -> Failed:
    """Return git's error message as an error, with the files that it names."""
    # Git quotes attributes that it does not understand, from any file.
    lines = [
        line for line in output.err.splitlines()
        if line.strip() and "is not a valid attribute name" not in line
    ]  # fmt: skip
    said = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines
    text = said[0].partition(": ")[2] or said[0] if said else f"exit code {output.code}"
    files = [line[1:] for line in lines if line.startswith("\t")]
    hints = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    details = {"files": files[:200]} if files else {}
    if ".lock': File exists" in text:
        hints = ["another git is at work there: try again; if none is, remove this file"]
    if " are ignored by one of your " in text:
        files = [line for line in lines if line not in said and not line.startswith("hint: ")]
        text, hints = f"ignored files are not added: {', '.join(files[:20])}", []
    text = text.replace(safety.LITERAL, "")
    return Failed(f"git {what}: {text[:500]}", (hints or [""])[0][:300], details)


def _raise_for(result: TaskResult, is_cut: bool, what: str) -> None:
    if result.error is not None:
        raise Failed(f"git {what} could not be started: {result.error}")
    if result.is_timeout:
        raise Failed(f"git {what} took longer than {result.seconds:.0f} s and was ended")
    if result.signal is not None and not is_cut:
        raise Failed(f"git {what} was ended by {result.signal}")


def _users_files(home: str, passed: Mapping[str, str]) -> tuple[str, ...]:
    place = passed.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return f"{home}/.gitconfig", f"{place}/git/config"


def _close_unused(finding: asyncio.Future[Any]) -> None:
    """Close a repository that nobody waits for."""
    if not finding.cancelled() and finding.exception() is None:
        finding.result()[0].close()


def _places(repository: Repository) -> dict[str, str]:
    """Return the variables that tell git where the data are, whatever a file of the repository
    says.
    """
    return {
        "GIT_COMMON_DIR": repository.common_dir,
        "GIT_OBJECT_DIRECTORY": repository.store.path,
    }


def _with_names(text: str, repository: Repository) -> str:
    """Return git's message with names of folders instead of descriptors."""
    for anchor in repository.anchors:
        text = text.replace(anchor.path, anchor.name)
    text = _HELD_STORE.sub(lambda _: repository.store.name, text)
    return _HELD.sub(lambda _: repository.data.name, text)


def _system(program: str, libraries: str) -> tuple[str, ...]:
    """Return the folders and files of the system that git needs."""
    wanted = [os.path.dirname(os.path.realpath(program)), libraries.strip(), *_SYSTEM]
    found = (os.path.realpath(path) for path in wanted if path.startswith("/"))
    return tuple(dict.fromkeys(path for path in found if os.path.exists(path)))


def _check_owner(repository: Repository) -> None:
    if not places.is_ours(repository):
        raise Refused(
            "this repository belongs to another user, and would be allowed to run programs",
            "remove allow_hooks and allow_programs, or change its owner",
        )


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _version_of(text: str) -> tuple[int, ...]:
    words = text.split()
    numbers = words[2].split(".")[:2] if len(words) > 2 else []
    if len(numbers) < 2 or not all(part.isdigit() for part in numbers):
        raise UsageError(f'"{text[:60]}" is no git')
    return tuple(int(part) for part in numbers)
