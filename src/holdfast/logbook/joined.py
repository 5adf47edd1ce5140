"""Consecutive chunks of one stream as one, for readers that do not ask when each was printed.

Most services print in many small chunks, so that to read their records costs more than to read
what they printed. Here many records are checked at a time, by loops that run in C. The rules are
those of `index.Continuity`. Records that are not settled here are left to it.
"""

from __future__ import annotations

import sys
from array import array
from itertools import accumulate, compress

from holdfast.logbook import index
from holdfast.system.patterns import pattern

_OF_ONE_STREAM = pattern(rb"\x00+|\x01+")
_BOTH = bytes((index.OUT, index.ERR))
_OTHER = bytes((1, 0, *range(2, 256)))
_KIND_AT = 7
_TIME_MASK = (1 << 56) - 1


def join(continuity: index.Continuity, packed: bytes) -> list[index.Record] | None:
    """Return packed records as fewer and longer ones, and account for them. None if they are
    anything but chunks that follow from each other."""
    packed = packed[: len(packed) - len(packed) % index.RECORD_SIZE]
    kinds = packed[_KIND_AT :: index.RECORD_SIZE]
    is_plain = kinds and not kinds.translate(None, _BOTH) and sys.byteorder == "little"
    if not is_plain or continuity.is_broken:
        return None
    long_words, words = array("Q", packed), array("I", packed)
    times, positions = long_words[0::3], long_words[1::3]
    offsets, lengths = words[4::6], words[5::6]
    places = list(accumulate(lengths, initial=continuity.position))
    end = places.pop()
    if end > continuity.limit or positions.tolist() != places or not all(lengths):
        return None
    ends: list[int] = []
    for own, is_own in zip(continuity.ends, (kinds.translate(_OTHER), kinds), strict=True):
        expected = list(accumulate(compress(lengths, is_own), initial=own))
        ends.append(expected.pop())
        if list(compress(offsets, is_own)) != expected:
            return None
    continuity.position, continuity.ends = end, ends
    places.append(end)
    return [
        (
            kinds[first],
            times[first] & _TIME_MASK,
            places[first],
            offsets[first],
            places[last] - places[first],
        )
        for first, last in (found.span() for found in _OF_ONE_STREAM.finditer(kinds))
    ]
