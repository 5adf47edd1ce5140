"""JSON as the standard library's, without what that loads: `re`, a third of a command's start.

The same compiled code does the work; where it is missing, the library itself does.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPACE = " \t\n\r"
_MARK = b"\xef\xbb\xbf"


def loads(line: bytes) -> Any:
    """What the line says, in UTF-8; raises ValueError for what is no JSON."""
    text = line.removeprefix(_MARK).decode("utf-8", "surrogatepass").strip(_SPACE)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError, ImportError):
        # Of its own errors it says nothing where the library, whose they are, is not loaded.
        raise ValueError("this is no JSON") from None
    if end != len(text):
        raise ValueError("there is more than one value")
    return value


def encoded(value: Any) -> bytes:
    """The value in UTF-8."""
    try:
        return dumps(value).encode()
    except UnicodeEncodeError:
        return dumps_ascii(value).encode()  # half a character, which only an escape can tell


class _Rules:
    """How values are read, as the scanner asks for it."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    """Of NaN, Infinity and -Infinity, which it reads as they are written."""


def _unknown(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} cannot be said in JSON")


def _dumper(text_of: Callable[[str], str]) -> Callable[[Any], str]:
    encode = _json.make_encoder(None, _unknown, text_of, None, ":", ",", False, False, True)
    return lambda value: "".join(encode(value, 0))


_scan: Callable[[str, int], tuple[Any, int]]
dumps: Callable[[Any], str]
dumps_ascii: Callable[[Any], str]
try:
    import _json

    _scan = _json.make_scanner(_Rules)  # type: ignore[arg-type]  # takes what has these names
    dumps = _dumper(_json.encode_basestring)
    dumps_ascii = _dumper(_json.encode_basestring_ascii)
except (ImportError, AttributeError, TypeError):
    import json

    _scan = json.JSONDecoder().raw_decode
    dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
    dumps_ascii = json.JSONEncoder(separators=(",", ":")).encode
