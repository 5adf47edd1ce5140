"""Writes the hashes behind the pins in requirements/: `python scripts/pins.py [FILE …]`.

Change a version by hand, then run this with any Python that has pip. For each pin it asks the
package index for the files of that release, and writes the SHA-256 of those that fit the systems
and versions of Python that Holdfast supports, and of the source. Comments, order and markers stay.
The index is the one that pip uses. `--check` changes nothing and fails if a pin has no hashes.
"""

from __future__ import annotations

import os
import re
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

FOLDER = Path(__file__).parent.parent / "requirements"
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?P<marker>\s*;[^\\]*)?")
PYTHON = re.compile(r"cp31[0-4]|py3|py2\.py3|py3\d+")
SYSTEM = re.compile(r"any|.*linux.*|macosx.*")
SUFFIXES = (".tar.gz", ".zip")


class _Links(HTMLParser):
    """The links of a page of the index."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if tag == "a" and name == "href"]


def index_url() -> str:
    """As pip has it: its environment, its own default."""
    from pip._internal.models.index import PyPI

    return os.environ.get("PIP_INDEX_URL") or PyPI.simple_url


def hashes_of(name: str, version: str) -> list[str]:
    """Of every file of a release that may be installed here or elsewhere."""
    url = f"{index_url().rstrip('/')}/{_normal(name)}/"
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    request = urllib.request.Request(url, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        links = _Links()
        links.feed(answer.read().decode())
    found = set()
    for link in links.found:
        path, fragment = urldefrag(link)
        file = unquote(urlsplit(path).path.rpartition("/")[2])
        if fragment.startswith("sha256=") and is_wanted(file, name, version):
            found.add(fragment.removeprefix("sha256="))
    if not found:
        raise SystemExit(f"pins: the index has no file of {name} {version}")
    return sorted(found)


def is_wanted(file: str, name: str, version: str) -> bool:
    """Whether it is of this release, and fits Linux or macOS and a Python that is supported."""
    if file.endswith(SUFFIXES):
        stem = file.removesuffix(".tar.gz").removesuffix(".zip")
        return _normal(stem) == _normal(f"{name}-{version}")
    if not file.endswith(".whl"):
        return False
    parts = file.removesuffix(".whl").split("-")
    if _normal(parts[0]) != _normal(name) or parts[1] != version:
        return False
    python, abi, system = parts[-3:]
    is_known = PYTHON.fullmatch(python) is not None and abi in ("none", python)
    return (is_known or abi == "abi3") and SYSTEM.fullmatch(system) is not None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_of(text: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Each line without its hashes, and the pin in it."""
    for line in re.sub(r"\s*\\\n\s+--hash=\S+", "", text).splitlines():
        yield line, None if line.startswith("#") else PIN.match(line)


def with_hashes(text: str) -> str:
    lines = list(pins_of(text))
    pins = [(pin["name"], pin["version"]) for _, pin in lines if pin is not None]
    with ThreadPoolExecutor(8) as pool:
        known = dict(zip(pins, pool.map(lambda pin: hashes_of(*pin), pins), strict=True))
    told: list[str] = []
    for line, pin in lines:
        hashes = [] if pin is None else known[pin["name"], pin["version"]]
        told.append(" \\\n".join([line.rstrip(), *(f"    --hash=sha256:{one}" for one in hashes)]))
    return "\n".join(told) + "\n"


def without_hashes(path: Path) -> list[str]:
    """The pins of a file that carry none."""
    entries = re.sub(r"\\\n", " ", path.read_text()).splitlines()
    pins = [entry for entry in entries if PIN.match(entry) and not entry.startswith("#")]
    return [entry for entry in pins if "--hash=sha256:" not in entry]


def main(words: list[str]) -> int:
    paths = [Path(word) for word in words if word != "--check"] or sorted(FOLDER.glob("*.txt"))
    if "--check" in words:
        bare = [f"{path.name}: {entry}" for path in paths for entry in without_hashes(path)]
        for entry in bare:
            print(f"pins: no hashes: {entry}", file=sys.stderr)
        return 1 if bare else 0
    for path in paths:
        path.write_text(with_hashes(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
