"""Many modules of Python in one file: to find and read them one by one takes a third of a start.

It lies with the byte code of this package and is a copy of the same kind: made by who has loaded
the modules, and good as long as every source is what it was. Else, or if anything about it is
wrong, modules are loaded as ever. Nothing depends on it.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from importlib.machinery import ModuleSpec, SourceFileLoader
from io import FileIO
from types import CodeType

import holdfast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import BinaryIO

    Stamp = tuple[int, int]
    Entry = tuple[int, int, str, Stamp, bool]
    """Where its code begins, its length, its source, what that was then, is it a package."""
    Index = dict[str, Entry]

_FORM = 1
_SIZE_BYTES = 8
_LEFT_SECONDS = 60.0


class Pack:
    """One file, for one kind of process."""

    def __init__(self, kind: str, folder: str = os.path.dirname(__file__)) -> None:
        self._folder = os.path.join(folder, "__pycache__")
        self._name = f"{kind}.{sys.implementation.cache_tag}.pack"
        self.path = os.path.join(self._folder, self._name)
        self.is_used = False
        self._index: Index = {}
        self._file: FileIO | None = None

    def use(self) -> None:
        """Load from it from now on, if it is what a look at every source would give."""
        try:
            self._file = file = FileIO(self.path)
            self._index = self._read_index(os.fstat(file.fileno()).st_size)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, the sources are there
            self.leave()
            return
        self.is_used = True
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python asks everybody in `sys.meta_path`."""
        entry = self._index.get(name)
        if entry is None:
            return None
        _, _, source, _, is_package = entry
        spec = ModuleSpec(name, _Loader(name, source, self), origin=source, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(source)]
        return spec

    def code(self, name: str) -> object:
        """What it has as the code of a module; that may be damaged."""
        begin, size, *_ = self._index[name]
        return _read(self._piece(begin, size))

    def leave(self) -> None:
        """Load from it no longer: who was to be loaded is."""
        # Another thread may be half way through these: a list of its own, and the file is closed
        # when nobody has it any more.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]
        self._index, self._file = {}, None

    def pass_on(self) -> None:
        """Leave one for the next process, and nothing else; raises OSError where it may not."""
        self._remove_leftovers()
        if not self.is_used:
            self.write()

    def write(self) -> None:
        """Make one of what this process has loaded; raises OSError where it may not."""
        written = f"{self.path}.{os.getpid()}.{time.time_ns()}"
        try:
            with open(written, "xb") as file:
                index = marshal.dumps((_origin(), _write_codes(file)))
                file.write(index + len(index).to_bytes(_SIZE_BYTES, "big"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(written, self.path)
        finally:
            if os.path.exists(written):
                os.unlink(written)

    def _read_index(self, file_size: int) -> Index:
        end = file_size - _SIZE_BYTES
        size = int.from_bytes(self._piece(end, _SIZE_BYTES), "big")
        origin, index = _read(self._piece(end - size, size))
        if origin != _origin() or any(_stamp(it[2]) != it[3] for it in index.values()):
            raise ValueError("it was made of something else")
        found: Index = index
        return found

    def _piece(self, begin: int, size: int) -> bytes:
        """Not mapped: who copies another file over this one would end the process."""
        file = self._file
        return os.pread(file.fileno(), size, begin) if file is not None else b""

    def _remove_leftovers(self) -> None:
        """Of who ended while it wrote."""
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if not name.startswith(f"{self._name}."):
                continue
            if time.time() - os.stat(path).st_mtime > _LEFT_SECONDS:
                os.unlink(path)


class _Loader(SourceFileLoader):
    """Python's own, which has the code at hand already."""

    def __init__(self, name: str, path: str, pack: Pack) -> None:
        super().__init__(name, path)
        self._pack: Pack | None = pack

    def get_code(self, fullname: str) -> CodeType | None:
        pack, self._pack = self._pack, None
        if pack is not None:
            try:
                code = pack.code(fullname)
            except Exception:  # noqa: BLE001 - it stands in the source as well
                code = None
            if isinstance(code, CodeType):
                return code
        return super().get_code(fullname)


_read = marshal.loads  # who may write here may write byte code as well


def _write_codes(file: BinaryIO) -> Index:
    """One after the other: all of them at once would be the most memory that a supervisor takes."""
    index: Index = {}
    for name, module in sorted(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or not isinstance(spec.loader, SourceFileLoader):
            continue
        source = spec.loader.path
        # First: a source that is replaced in this very moment makes the pack worthless.
        stamp, begin = _stamp(source), file.tell()
        size = file.write(marshal.dumps(SourceFileLoader(name, source).get_code(name)))
        index[name] = (begin, size, source, stamp, spec.submodule_search_locations is not None)
    return index


def _origin() -> tuple[int, str, str, list[tuple[str, int]]]:
    """Another Python, or one that looks elsewhere or finds more there, may mean other modules."""
    folders = [(path, _stamp(path)[0]) for path in sys.path if os.path.exists(path)]
    return _FORM, holdfast.__version__, sys.version, folders


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size
