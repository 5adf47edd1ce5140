"""Many modules of Python in one file: to find and read them one by one takes a third of a start.

It lies with the byte code of this package and is a copy of the same kind: made by who has loaded
the modules, and good as long as every source is what it was. Else, or if anything about it is
wrong, modules are loaded as ever. Nothing depends on it.
"""

from __future__ import annotations

import marshal
import mmap
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader

import holdfast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import BinaryIO

    Stamp = tuple[int, int]
    Entry = tuple[int, int, str, Stamp, bool]
    """Where its code begins and ends, its source, what that was then, whether it is a package."""
    Index = dict[str, Entry]

_SIZE_BYTES = 8
_DAMAGED = (ValueError, EOFError, TypeError)
_read = marshal.loads  # who may write here may write byte code as well


class Pack:
    """One file, for one kind of process."""

    def __init__(self, kind: str, folder: str = os.path.dirname(__file__)) -> None:
        tag = sys.implementation.cache_tag
        self.path = os.path.join(folder, "__pycache__", f"{kind}.{tag}.pack")
        self.is_used = False
        self._index: Index = {}
        self._codes = memoryview(b"")

    def use(self) -> None:
        """Load from it from now on, if it is what a look at every source would give."""
        try:
            with open(self.path, "rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            size = int.from_bytes(data[-_SIZE_BYTES:], "big")
            origin, index = _read(data[-_SIZE_BYTES - size :])
            if origin != _origin() or any(_stamp(it[2]) != it[3] for it in index.values()):
                return
        except (OSError, *_DAMAGED):
            return
        self._index, self._codes, self.is_used = index, data, True
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python asks everybody in `sys.meta_path`."""
        entry = self._index.get(name)
        if entry is None:
            return None
        begin, end, source, _, is_package = entry
        loader = _Loader(name, source, self._codes[begin:end])
        spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(source)]
        return spec

    def leave(self) -> None:
        """Load from it no longer: who was to be loaded is."""
        if self.is_used:
            sys.meta_path.remove(self)
            self._index, self._codes = {}, memoryview(b"")

    def write(self) -> None:
        """Make one of what this process has loaded; raises OSError where it may not."""
        written = f"{self.path}.{os.getpid()}"
        try:
            with open(written, "wb") as file:
                index = marshal.dumps((_origin(), _write_codes(file)))
                file.write(index + len(index).to_bytes(_SIZE_BYTES, "big"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(written, self.path)
        except OSError:
            if os.path.exists(written):
                os.unlink(written)
            raise


def _write_codes(file: BinaryIO) -> Index:
    """One after the other: all of them at once would be the most memory that a supervisor takes."""
    index: Index = {}
    for name, module in sorted(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or not isinstance(spec.loader, SourceFileLoader):
            continue
        source = spec.loader.path
        # First: a source that is replaced in this very moment makes the pack worthless.
        stamp = _stamp(source)
        begin = file.tell()
        file.write(marshal.dumps(SourceFileLoader(name, source).get_code(name)))
        is_package = spec.submodule_search_locations is not None
        index[name] = (begin, file.tell(), source, stamp, is_package)
    return index


class _Loader(SourceFileLoader):
    """Python's own, which has the code at hand already."""

    def __init__(self, name: str, path: str, code: memoryview) -> None:
        super().__init__(name, path)
        self._code: memoryview | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        packed, self._code = self._code, None
        if packed is not None:
            try:
                code: CodeType = _read(packed)
            except _DAMAGED:
                pass  # it stands in the source as well
            else:
                return code
        return super().get_code(fullname)


def _origin() -> tuple[str, str, list[str]]:
    """Another Python, or one that looks elsewhere, would find something else."""
    return holdfast.__version__, sys.version, sys.path


def _stamp(source: str) -> Stamp:
    found = os.stat(source)
    return found.st_mtime_ns, found.st_size
