"""Modules in one file: the same modules, or none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.system.module_pack import Pack

SOURCES = str(Path(holdfast.__file__).parent.parent)
PROGRAM = """
import json, sys
folder, what = sys.argv[1:]
sys.path[:0] = [{sources!r}, *{more!r}, folder]
from holdfast.system.module_pack import Pack
pack = Pack("shop", folder)
pack.use()
import shop.till, {also}
if what == "write":
    pack.write()
pack.leave()
told = dict(
    is_used=pack.is_used,
    prices=shop.till.prices(),
    loader=isinstance(shop.till.__loader__, type(json.__loader__)),
    file=shop.till.__file__, cached=shop.till.__cached__, package=shop.till.__package__,
    folders=list(shop.__path__), data=shop.__loader__.get_data(shop.__file__).decode(),
    left=type(sys.meta_path[0]).__name__,
)
try:
    shop.till.fail()
except ZeroDivisionError:
    import traceback
    told["traceback"] = traceback.format_exc()
print(json.dumps(told))
"""


class Shop:
    """A package, and processes that load it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "shop"
        self.package.mkdir(parents=True)
        (folder / "__pycache__").mkdir()
        (self.package / "__init__.py").write_text("from shop.till import prices\n")
        self.till = self.package / "till.py"
        self.till.write_text("def prices():\n    return [1, 2]\n\ndef fail():\n    return 1 / 0\n")
        self.pack = Path(Pack("shop", str(folder)).path)

    def load(self, what: str = "", *, also: str = "json", more: tuple[str, ...] = ()) -> Any:
        program = PROGRAM.format(sources=SOURCES, also=also, more=more)
        argv = [sys.executable, "-I", "-S", "-c", program, str(self.folder), what]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


def test_what_is_loaded_is_the_same(shop: Shop) -> None:
    """Nobody sees where a module came from, not even in a traceback."""
    plain = shop.load("write")
    packed = shop.load()
    assert (plain.pop("is_used"), packed.pop("is_used")) == (False, True)
    assert packed == plain
    assert "return 1 / 0" in packed["traceback"]
    assert packed["left"] != "Pack"


def test_a_changed_source_makes_all_of_it_worthless(shop: Shop) -> None:
    """Also the modules that did not change: old and new code never meet."""
    shop.load("write")
    shop.till.write_text("def prices():\n    return [1, 30]\n\ndef fail():\n    return 1 / 0\n")
    changed = shop.load("write")
    assert (changed["is_used"], changed["prices"]) == (False, [1, 30])
    again = shop.load()
    assert (again["is_used"], again["prices"]) == (True, [1, 30])


def test_a_source_that_is_gone(shop: Shop) -> None:
    """What nobody imports any more is no reason to fail, but a sign of another version."""
    (shop.package / "old.py").write_text("")
    shop.load("write", also="shop.old")
    assert shop.load()["is_used"]
    (shop.package / "old.py").unlink()
    assert not shop.load()["is_used"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "short": lambda data: data[-5:],
    "half an index": lambda data: data[-200:],
    "without an end": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
    "text": lambda data: b"no such thing\n" * 100,
    "another form": lambda data: data[:-10] + b"N." + (2).to_bytes(8, "big"),
}


@pytest.mark.parametrize("is_cut", [True, False])
def test_where_its_code_is_damaged_the_source_is_read(is_cut: bool, shop: Shop) -> None:
    """The rest of it may be whole."""
    shop.load("write")
    data = shop.pack.read_bytes()
    size = len(data) - 8 - int.from_bytes(data[-8:], "big")
    shop.pack.write_bytes((b"" if is_cut else bytes(size)) + data[size:])
    assert shop.load()["prices"] == [1, 2]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_not_used(damage: str, shop: Shop) -> None:
    """Modules are loaded as ever, and it is made anew."""
    shop.load("write")
    shop.pack.write_bytes(DAMAGES[damage](shop.pack.read_bytes()))
    told = shop.load("write")
    assert (told["is_used"], told["prices"]) == (False, [1, 2])
    assert shop.load()["is_used"]


def test_who_looks_elsewhere_finds_something_else(shop: Shop, tmp_path: Path) -> None:
    """With another path the same name may mean another module."""
    shop.load("write")
    other = tmp_path / "other" / "shop"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "till.py").write_text("def prices():\n    return [7]\n\ndef fail():\n    1 / 0\n")
    told = shop.load(more=(str(other.parent),))
    assert (told["is_used"], told["prices"]) == (False, [7])


def test_who_comes_first_is_found_first(shop: Shop) -> None:
    """A module that appears in an earlier folder of the path is taken, as ever."""
    earlier = shop.folder.parent / "earlier"
    earlier.mkdir()
    shop.load("write", more=(str(earlier),))
    assert shop.load(more=(str(earlier),))["is_used"]
    (earlier / "shop").mkdir()
    (earlier / "shop" / "__init__.py").write_text("")
    (earlier / "shop" / "till.py").write_text("def prices(): return [7]\ndef fail(): 1 / 0\n")
    told = shop.load(more=(str(earlier),))
    assert (told["is_used"], told["prices"]) == (False, [7])


def test_what_is_no_code_is_not_run(shop: Shop) -> None:
    """A damaged place may hold something else that can be read."""
    shop.load("write")
    data = shop.pack.read_bytes()
    shop.pack.write_bytes(data.replace(b"\xe3", b"N"))
    assert shop.load()["prices"] == [1, 2]


def test_where_nothing_can_be_written_nothing_is_left(shop: Shop) -> None:
    """The caller is told; a half written file is not left behind, of a killed one neither."""
    pack = Pack("shop", str(shop.folder / "nowhere"))
    with pytest.raises(OSError, match="nowhere"):
        pack.write()
    shop.pack.mkdir()
    left = shop.pack.with_name(f"{shop.pack.name}.123.456")
    left.write_text("")
    os.utime(left, (1, 1))
    with pytest.raises(OSError, match=r"\.pack"):
        Pack("shop", str(shop.folder)).pass_on()
    assert os.listdir(shop.folder / "__pycache__") == [shop.pack.name]


def test_what_was_half_written_goes_though_a_whole_one_is_there(shop: Shop) -> None:
    """Who can use a pack writes none, but tidies up after who ended while it wrote."""
    shop.load("write")
    whole = shop.pack.read_bytes()
    old, young = (shop.pack.with_name(f"{shop.pack.name}.{number}.456") for number in (1, 2))
    for half in (old, young):
        half.write_text("")
    os.utime(old, (1, 1))
    pack = Pack("shop", str(shop.folder))
    pack.is_used = True
    pack.pass_on()
    assert (old.exists(), young.exists(), shop.pack.read_bytes()) == (False, True, whole)


def test_it_is_as_readable_as_the_sources(shop: Shop) -> None:
    """A pack written by root serves the other users of an installation, whatever the umask."""
    before = os.umask(0o077)
    try:
        shop.load("write")
    finally:
        os.umask(before)
    sources = Path(holdfast.__file__).parent / "system" / "module_pack.py"
    assert shop.pack.stat().st_mode & 0o777 == sources.stat().st_mode & 0o666


def test_a_whole_supervisor(shop: Shop) -> None:
    """Every module that it and its preloading load can be had from one file."""
    more = tuple(path for path in sys.path if path.endswith("site-packages"))
    also = "holdfast.supervisor_process, holdfast.preloading"
    assert not shop.load("write", also=also, more=more)["is_used"]
    assert shop.load(also=also, more=more)["is_used"]
    assert shop.pack.stat().st_size > 1_000_000
