"""Many Python modules in one file. To find and read them one by one takes a third of a start.

The file lies with the byte code of this package and is a cache of the same kind. A process that has
loaded the modules writes it, and it is valid as long as no source has changed. If it is invalid or
damaged, modules are loaded as usual. Nothing depends on it.
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
    """Offset and length of the code, the source, its stamp, and whether it is a package."""
    Index = dict[str, Entry]

_FORM = 1
_SIZE_BYTES = 8
_LEFT_SECONDS = 60.0


class Pack:
    """The pack of one kind of process."""

    def __init__(self, kind: str, folder: str = os.path.dirname(__file__)) -> None:
        self._folder = os.path.join(folder, "__pycache__")
        self._name = f"{kind}.{sys.implementation.cache_tag}.pack"
        self.path = os.path.join(self._folder, self._name)
        self.is_used = False
        self._index: Index = {}
        self._file: FileIO | None = None

    def use(self) -> None:
        """Load modules from the pack from now on, if it is valid for every source."""
        try:
            self._file = file = FileIO(self.path)
            self._index = self._read_index(os.fstat(file.fileno()).st_size)
        except Exception:  # noqa: BLE001 - whatever is wrong, the sources are there
            self.leave()
            return
        self.is_used = True
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module, as Python asks every finder in `sys.meta_path`."""
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
        """Return the code of a module, which may be damaged."""
        begin, size, *_ = self._index[name]
        return _read(self._piece(begin, size))

    def leave(self) -> None:
        """Stop using the pack. Everything that should come from it has been imported."""
        # Another thread may be using both: it keeps the old list, and the file is closed when the
        # last reference is gone.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]
        self._index, self._file = {}, None

    def pass_on(self) -> None:
        """Make sure that there is a pack for the next process, and no leftovers; raises OSError."""
        self._remove_leftovers()
        if not self.is_used:
            self.write()

    def write(self) -> None:
        """Write a pack of the modules that this process has loaded; raises OSError."""
        written = f"{self.path}.{os.getpid()}.{time.time_ns()}"
        try:
            with open(written, "xb") as file:
                index = marshal.dumps((_origin(), _write_codes(file)))
                file.write(index + len(index).to_bytes(_SIZE_BYTES, "big"))
                # As readable as the sources: whoever may import them may use the pack, although
                # a supervisor writes all its other files for its owner alone.
                os.fchmod(file.fileno(), os.stat(__file__).st_mode & 0o666)
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
        if origin != _origin() or any(_stamp(entry[2]) != entry[3] for entry in index.values()):
            raise ValueError("it was made of something else")
        found: Index = index
        return found

    def _piece(self, begin: int, size: int) -> bytes:
        """Read a part of the file. Not mapped: a file that is overwritten would end the process."""
        file = self._file
        return os.pread(file.fileno(), size, begin) if file is not None else b""

    def _remove_leftovers(self) -> None:
        """Remove files of processes that died while they wrote."""
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if not name.startswith(f"{self._name}."):
                continue
            if time.time() - os.stat(path).st_mtime > _LEFT_SECONDS:
                os.unlink(path)


class _Loader(SourceFileLoader):
    """Python's own loader, with the code from the pack."""

    def __init__(self, name: str, path: str, pack: Pack) -> None:
        super().__init__(name, path)
        self._pack: Pack | None = pack

    def get_code(self, fullname: str) -> CodeType | None:
        pack, self._pack = self._pack, None
        if pack is not None:
            try:
                code = pack.code(fullname)
            except Exception:  # noqa: BLE001 - the source has it as well
                code = None
            if isinstance(code, CodeType):
                return code
        return super().get_code(fullname)


_read = marshal.loads  # as safe as byte code, which has the same owner


def _write_codes(file: BinaryIO) -> Index:
    """Write the code of each module, one after the other, to save memory."""
    index: Index = {}
    for name, module in sorted(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or not isinstance(spec.loader, SourceFileLoader):
            continue
        source = spec.loader.path
        # Stamped first: a source that is replaced at this moment makes the pack invalid.
        stamp, begin = _stamp(source), file.tell()
        size = file.write(marshal.dumps(SourceFileLoader(name, source).get_code(name)))
        index[name] = (begin, size, source, stamp, spec.submodule_search_locations is not None)
    return index


def _origin() -> tuple[int, str, str, list[tuple[str, int]]]:
    """Return what decides which modules a name means: the Python, and where it looks."""
    folders = [(path, _stamp(path)[0]) for path in sys.path if os.path.exists(path)]
    return _FORM, holdfast.__version__, sys.version, folders


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size
