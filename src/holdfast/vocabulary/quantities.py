"""Durations, sizes and signals as people write them, and as we show them.

Standard library only: the CLI's fast path imports this. Every parser raises ValueError with
a message that says what to write instead.
"""

from __future__ import annotations

import math
import signal

from holdfast.system.patterns import pattern

SECONDS = {
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
UNIT_WORDS = {
    "ms": "ms",
    "msec": "ms",
    "millisecond": "ms",
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hr": "h",
    "hour": "h",
    "day": "d",
    "week": "w",
}
UNIT_NAMES = {"ms": "milliseconds", "s": "seconds"}

KIB = 1024
LARGEST_SIZE = 2**63
LONGEST_NUMBER = 20
"""Digits; the interpreter refuses to read very many of them, in words of its own."""
SIZES = {
    "": 1,
    "b": 1,
    "k": KIB,
    "kib": KIB,
    "kb": 1000,
    "m": KIB**2,
    "mib": KIB**2,
    "mb": 1000**2,
    "g": KIB**3,
    "gib": KIB**3,
    "gb": 1000**3,
    "t": KIB**4,
    "tib": KIB**4,
    "tb": 1000**4,
}

_NUMBER = pattern(r"\d+(?:\.\d*)?|\.\d+")
_DURATION = pattern(r"(?:\s*(?:\d+(?:\.\d*)?|\.\d+)\s*[a-zµ]+)+")
_DURATION_PART = pattern(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]+)")
_SIZE = pattern(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)")
_REAL_TIME = pattern(r"RT(MIN\+|MAX-)(\d{1,2})")


def parse_duration(text: str | float, unit: str = "s") -> float:
    """Seconds of «5s», «200ms», «1h30m», or of a bare number in the given unit ("s", "ms")."""
    if isinstance(text, bool) or (isinstance(text, float) and not math.isfinite(text)):
        raise ValueError(_not_a_duration(text, unit))
    if isinstance(text, (int, float)):
        if text < 0:
            raise ValueError(f'"{text}" is negative; a duration is 0 or more')
        return text * SECONDS[unit]
    written = text.strip().lower().replace("μ", "µ")
    if written.startswith("-") and _NUMBER.match(written[1:]):
        raise ValueError(f'"{text}" is negative; a duration is 0 or more')
    if _NUMBER.fullmatch(written):
        return _bounded(float(written) * SECONDS[unit], text)
    if not _DURATION.fullmatch(written):
        raise ValueError(_not_a_duration(text, unit))
    total = 0.0
    for number, word in _DURATION_PART.findall(written):
        factor = SECONDS.get(word) or SECONDS.get(UNIT_WORDS.get(word.removesuffix("s"), ""))
        if factor is None:
            raise ValueError(
                f'"{text}" has the unknown unit "{word}"; units are ms, s, m, h, d and w'
            )
        total += float(number) * factor
    return _bounded(total, text)


def _not_a_duration(text: object, unit: str) -> str:
    name = UNIT_NAMES.get(unit, unit)
    return f'"{text}" is not a duration; write 5s, 200ms, 1h30m or a number of {name}'


def _bounded(seconds: float, text: object) -> float:
    if seconds > 100 * 365 * 86400:
        raise ValueError(f'"{text}" is longer than a century; write a shorter time')
    return seconds


def format_duration(seconds: float) -> str:
    """A duration in its two largest units: «350ms», «4.2s», «1h 30m», «3d 4h»."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms" if seconds else "0s"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for unit, below, size in (("d", "h", 86400), ("h", "m", 3600), ("m", "s", 60)):
        if whole >= size:
            rest = whole % size // {"h": 3600, "m": 60, "s": 1}[below]
            return f"{whole // size}{unit}" + (f" {rest}{below}" if rest else "")
    return f"{whole}s"


def parse_size(text: str | int) -> int:
    """Bytes of «16MB» (millions), «16MiB» or «16M» (times 1024²), or of a bare number."""
    if isinstance(text, bool):
        raise ValueError(f'"{text}" is not a size; write 16MB, 1GiB or a number of bytes')
    if isinstance(text, int):
        if text < 0:
            raise ValueError(f'"{text}" is negative; a size is 0 or more')
        return text
    found = _SIZE.fullmatch(text.strip().lower())
    factor = SIZES.get(found[2]) if found else None
    if found is None or factor is None:
        raise ValueError(f'"{text}" is not a size; write 16MB, 1GiB or a number of bytes')
    size = float(found[1]) * factor
    if size > LARGEST_SIZE:
        raise ValueError(f'"{text}" is too large; write fewer digits')
    return int(size) if "." in found[1] else int(found[1]) * factor


def format_size(size: float) -> str:
    """Bytes in the largest fitting binary unit: «512 B», «16.0 MiB»."""
    if abs(size) < KIB:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= KIB
        if abs(size) < 1023.95:
            return f"{size:.1f} {unit}"
    return f"{size / KIB:.1f} TiB"


def parse_signal(text: str | int) -> int:
    """The number of «TERM», «SIGTERM», «sigterm», 15, «15» or «SIGRTMIN+3»."""
    number = _signal_number(text)
    if number is None or not 0 < number < signal.NSIG:
        raise ValueError(f'"{text}" is not a signal; write SIGTERM, INT, HUP … or a number')
    return number


def _signal_number(text: str | int) -> int | None:
    if isinstance(text, bool):
        return None
    if isinstance(text, int):
        return text
    word = text.strip().upper().removeprefix("SIGNAL ")  # one without a name is called so
    if word.isdecimal():
        return int(word) if len(word) < LONGEST_NUMBER else None
    word = word.removeprefix("SIG")
    known = getattr(signal, f"SIG{word}", None)
    if isinstance(known, signal.Signals):
        return int(known)
    found = _REAL_TIME.fullmatch(word)
    first, last = (signal.Signals.__members__.get(f"SIGRT{end}") for end in ("MIN", "MAX"))
    if found is None or first is None or last is None:
        return None
    number = first + int(found[2]) if found[1] == "MIN+" else last - int(found[2])
    return number if first <= number <= last else None


def signal_name(number: int) -> str:
    """«SIGTERM» for 15; a number without a name is «signal 99»."""
    try:
        return signal.Signals(number).name
    except ValueError:
        pass
    first, last = (signal.Signals.__members__.get(f"SIGRT{end}") for end in ("MIN", "MAX"))
    if first is not None and last is not None and first < number < last:
        return f"SIGRTMIN+{number - first}"
    return f"signal {number}"
