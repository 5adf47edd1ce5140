"""JSON without the standard library's `json` module, which loads `re`: a third of a command's
start.

The same compiled code does the work. Where that is missing, the library itself does it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_SPACE = " \t\n\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def loads(line: bytes) -> Any:
    """Parse one value in UTF-8; raises ValueError if this is no JSON."""
    text = line.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "surrogatepass").strip(_SPACE)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError, ImportError):
        # The scanner raises these if the library, which has its error class, is not loaded.
        raise ValueError("this is no JSON") from None
    if end != len(text):
        raise ValueError("there is more than one value")
    return value


def objects_in(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file with one object on each line. Skip all other lines, such as a
    torn one, whose writer died while it wrote."""
    for line in data.split(b"\n"):
        try:
            entry = loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def encoded(value: Any) -> bytes:
    """Return the value as JSON in UTF-8."""
    try:
        return dumps(value).encode()
    except UnicodeEncodeError:
        return dumps_ascii(value).encode()  # half a character, which only an escape can express


class _ScannerOptions:
    """How values are read, in the attributes that the compiled scanner looks for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    """For NaN, Infinity and -Infinity."""


def _refuse(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} cannot be said in JSON")


def _dumper(text_of: Callable[[str], str]) -> Callable[[Any], str]:
    encode = _json.make_encoder(None, _refuse, text_of, None, ":", ",", False, False, True)
    return lambda value: "".join(encode(value, 0))


_scan: Callable[[str, int], tuple[Any, int]]
dumps: Callable[[Any], str]
dumps_ascii: Callable[[Any], str]
try:
    import _json

    _scan = _json.make_scanner(_ScannerOptions)  # type: ignore[arg-type]  # any object with these
    dumps = _dumper(_json.encode_basestring)
    dumps_ascii = _dumper(_json.encode_basestring_ascii)
except (ImportError, AttributeError, TypeError):
    import json

    _scan = json.JSONDecoder().raw_decode
    dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
    dumps_ascii = json.JSONEncoder(separators=(",", ":")).encode
