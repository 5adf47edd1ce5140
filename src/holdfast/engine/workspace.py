"""The project's files and repositories, and the programs that work on them.

Each part is built when it is first used, because their modules would delay a new supervisor. Also
knows which files no command may ever open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.reader_threads import ReaderThreads
from holdfast.engine.caller import CallersEnvironment
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.tasks import Tasks
from holdfast.system.places import CONFIG_NAMES, DOTENV, OVERRIDE_NAMES, folder_name
from holdfast.vocabulary.specs.settings import Configuration, HttpSpec

if TYPE_CHECKING:
    from holdfast.adapters.files.files import Files
    from holdfast.engine.git.checkpoints import CheckpointStore
    from holdfast.engine.git.git import Git
    from holdfast.engine.git.status_cache import StatusCache
    from holdfast.engine.search import Ripgrep


class Workspace:
    """The objects that commands about files, git and search work with."""

    def __init__(
        self,
        tasks: Tasks,
        in_thread: ReaderThreads,
        link: KeeperLink,
        settings: CurrentSettings,
        *,
        project: str,
        state: str,
    ) -> None:
        self._tasks = tasks
        self._in_thread = in_thread
        self._link = link
        self._settings = settings
        self._project = project
        self._state = state

    @cached_property
    def files(self) -> Files:
        from holdfast.adapters.files.files import Files

        return Files(
            self._state,
            self._project,
            lambda: self._settings.now.files,
            lambda: self.never_opened(
                self.configuration_path, self._configuration_files(), self._settings.now.http
            ),
        )

    @cached_property
    def git(self) -> Git:
        from holdfast.engine.git.git import Git

        environment = CallersEnvironment(self._link)
        return Git(self._tasks, self._in_thread, environment, lambda: self._settings.now.git)

    @cached_property
    def git_status(self) -> StatusCache:
        from holdfast.engine.git.status_cache import StatusCache

        return StatusCache(self.git, self._in_thread)

    @cached_property
    def checkpoints(self) -> CheckpointStore:
        from holdfast.engine.git.checkpoints import CheckpointStore

        return CheckpointStore(self.git, self._in_thread, self._state, lambda: self.files.roots)

    @cached_property
    def ripgrep(self) -> Ripgrep:
        from holdfast.engine.search import Ripgrep

        return Ripgrep(self._tasks, self._in_thread, CallersEnvironment(self._link))

    @property
    def configuration_path(self) -> str | None:
        """The configuration in use; None: nothing was configured."""
        return self._link.kept.get(keeper_memory.CONFIGURATION)

    def has_pending_changes(self) -> bool:
        """Return whether an earlier supervisor died while it changed files."""
        try:
            return bool(os.listdir(os.path.join(self._state, "files", "pending")))
        except OSError:
            return False

    def prepare_roots(self, configuration: Configuration) -> None:
        """Look up the roots of a configuration before it is in force. Blocks: call it in a thread.

        Nothing is done if no file was asked for yet.
        """
        if "files" in self.__dict__:
            never = self.never_opened(
                configuration.path, configuration.sources, configuration.settings.http
            )
            self.files.foresee(configuration.settings.files, never)

    def never_opened(
        self, configuration: str | None, sources: Iterable[str], http: HttpSpec | None
    ) -> list[tuple[str, str]]:
        """Return the files and folders that no command opens, each with the reason. `sources` are
        the files that make up the configuration; `.env` among them can be admitted by name."""
        folders = {self._project, os.path.dirname(configuration or "") or self._project}
        names = (*CONFIG_NAMES, *OVERRIDE_NAMES)
        paths = {os.path.join(folder, name) for folder in folders for name in names}
        paths |= {path for path in sources if os.path.basename(path) != DOTENV}
        paths |= {configuration} if configuration else set()
        never = [(path, "it is Holdfast's configuration") for path in sorted(paths)]
        never.append((self._own_state, "it is Holdfast's own state"))
        if http is not None and http.key:
            never.append((http.key, "it is a private key"))
        return never

    def _configuration_files(self) -> Iterable[str]:
        """Return the files of the configuration as an admin has loaded it."""
        text = self._link.kept.get(keeper_memory.APPROVED_CONFIGURATION)
        return () if text is None else msgspec.json.decode(text, type=dict[str, str])

    @cached_property
    def _own_state(self) -> str:
        """The folder of our state, or of all states if it lies beside those of other projects."""
        states, name = os.path.split(self._state)
        return states if name == folder_name(self._project) else self._state

    def close(self) -> None:
        if "git_status" in self.__dict__:
            self.git_status.close()
        if "files" in self.__dict__:
            self.files.close()
