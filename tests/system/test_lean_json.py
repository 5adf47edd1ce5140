"""JSON without the library's modules says and understands the same."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.system import lean_json
from tests.harness import PYTHON

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_the_same_is_said(value: Any) -> None:
    """And what was said is understood, also half characters, by both."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert lean_json.dumps(value) == text
    assert json.loads(lean_json.encoded(value)) == value
    assert lean_json.loads(lean_json.encoded(value)) == value


PIECES = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ",",
    ":",
    "1",
    "-",
    "e",
    ".",
    "\\",
    "u00e9",
    "null",
    " ",
    "\n",
    "é",
]


@given(some.lists(some.sampled_from(PIECES), max_size=8).map("".join))
def test_the_same_is_understood(text: str) -> None:
    """What is no JSON to the one is none to the other."""
    line = text.encode()
    try:
        expected = json.loads(line)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            lean_json.loads(line)
    else:
        assert lean_json.loads(line) == expected


@pytest.mark.parametrize("line", [b"\xff", b'"\xff"', b"[" * 100_000, b"", b"1 2", b'"\n"'])
def test_garbage_is_an_error_of_the_same_kind(line: bytes) -> None:
    """Nothing else is raised by what a stranger may send."""
    for loads in (json.loads, lean_json.loads):
        with pytest.raises((ValueError, RecursionError)):
            loads(line)


def test_garbage_is_an_error_where_the_library_is_not_loaded() -> None:
    """Its compiled code tells of no error then, which must be one nevertheless."""
    code = (
        "import sys, ast; from holdfast.system import lean_json; bad = []\n"
        "for line in ast.literal_eval(sys.argv[1]):\n"
        "    try: bad.append(lean_json.loads(line))\n"
        "    except ValueError: continue\n"
        "print(bad)"
    )
    garbage = [b'{"a', b'{"a":1 x', b"{1:2}", b'{"a" 1}', b'"\\u12"', b'"\\x"', b'"\n"', b"[1 2]"]
    done = subprocess.run(
        [PYTHON, "-c", code, repr(garbage)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_what_the_library_loads_is_not_loaded() -> None:
    """The relay and the connection start without it, which is what all this is for."""
    code = (
        "import sys, holdfast.cli.main, holdfast.cli.mcp.verb, holdfast.cli.mcp.relay\n"
        "print(*{'re', 'enum', 'json', 'collections', 'typing'} & set(sys.modules))"
    )
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
