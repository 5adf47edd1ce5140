"""What must not be told in bytes that somebody printed: found by its shape, by the name in front
of it, and by its value; hidden in place.

Made for much text: one expression finds the places where a secret may stand, by the rarest
character of what begins it, and only there it is looked at closely. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache

from holdfast.secrets import private_keys
from holdfast.secrets.private_keys import Block
from holdfast.system.patterns import pattern

HIDDEN = b"[hidden]"
SHORTEST_VALUE = 6
"""Shorter values would hide half of what is printed."""
_PROBE = 8
_LEAST_BEGINNING = 3
_FEW_VALUES = 64
_SHORT = 512
_MANY_LOOKS = 200
_MOST_IN_WORD = 16
"""Beginnings of secrets that are looked at in what may be one value."""
_BEHIND_WORD = pattern(rb"[\s,;&\"'\])\x1b]")
_PIVOTS = {b":aa": 0}
"""Where the rarest character is not the one to look for: another probe has it already."""
_AWS_HINTS = (b"akia", b"asia", b"agpa", b"aida", b"aroa")
_TWILIO_HINTS = tuple(b"sk%x" % digit for digit in range(16))
# Capital letters: sought as it is written, which is quickest.
_AWS = pattern(rb"A(?:KIA|SIA|GPA|IDA|ROA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_TWILIO = pattern(rb"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m)|(?<=\\[nrt]))SK[0-9a-f]{32}(?![A-Za-z0-9])")

# Where colours stand between a name and its value, they stay; no span holds an escape.
_COLOURS = r"(?:\x1b\[[0-9;]{0,20}m){0,3}"
# A colour, or a line end in JSON, ends with a letter that belongs to no word.
_CODE_BEFORE = r"(?<=[0-9;\[]m)|(?<=\\[nrt])"
_START = rf"(?:\b|{_CODE_BEFORE})"
_START_BESIDE = rf"(?:(?<![A-Za-z0-9])|{_CODE_BEFORE})"
_SCHEME = r"(?:bearer|basic|token|api-?key|negotiate|ntlm|digest|hawk|splunk)"
_VARIABLE = r"\$\{\w{1,99}\}"
_PLAIN = r"[^\s,;&\"'}\])\x1b$]"
_BARE = rf"(?:{_PLAIN}+|(?=\$))(?:(?:{_VARIABLE}|\$){_PLAIN}*)*"
# No secret is a variable alone, nor what a hint writes behind one: `${NAME:-default}`.
_TO_FILL_IN = (
    rf"\"{_VARIABLE}\"|\\\"{_VARIABLE}\\\"|'{_VARIABLE}'"
    rf"|{_VARIABLE}(?:\Z|\\?[\"']|[\s,;&}}\])\x1b])|[-?](?:default|…)?\}}"
)
_GIVEN = rf"\\?[\"']?{_COLOURS}[ \t]{{0,3}}"
_SET = rf"{_GIVEN}=>?[ \t]{{0,3}}{_COLOURS}"
# Behind a colon there may be a sentence: a secret is quoted, or ends what is said.
_COLON = (
    rf"{_GIVEN}:[ \t]{{0,3}}{_COLOURS}"
    rf"(?=\\?[\"']|{_SCHEME}\s|{_BARE}\s*(?:\Z|[,;&}}\])\n\x1b]))"
)
_VALUE = (
    # What is hidden already stays as it is: texts pass through here more than once.
    rf"(?!\\?[\"']?\[hidden\]|{_TO_FILL_IN})"
    r"(?:\\\"([^\"\n\x1b]*?)\\\"|\"((?:[^\"\\\n\x1b]|\\.)*)\"|'((?:[^'\\\n\x1b]|\\.)*)'"
    rf"|({_SCHEME}[ \t]+[^\s\x1b\"']+)|[\"']?({_BARE}))"
)
_REST = r"(?:s|[_.-][\w.-]{0,30})?"


def _named(name: str) -> str:
    return rf"{name}{_REST}(?:{_SET}|{_COLON}){_VALUE}"


def _behind(text: str) -> str:
    """Behind a text with which a word begins."""
    return rf"(?:(?<=\b{text})|(?<=[0-9;\[]m{text})|(?<=\\[nrt]{text}))"


# What a shell tells of itself, always a whole path and in capitals; no part of a connection string.
_FOLDER = (
    r"(?-i:(?:(?<![\w;&.-])(?<!; )|(?<=OLD)(?<![\w;&.-]OLD))PWD)"
    r"\\?[\"']?[ \t]{0,3}[=:][ \t]{0,3}\\?[\"']?/"
)
_CREDENTIALS = (
    rf"(?:(?<![\w-])|{_CODE_BEFORE})"
    + r"{}[ \t]+((?=\S*[0-9]|\S{{20}}|(?-i:\S+[A-Z]))[A-Za-z0-9._~+/=-]{{8,}})"
)
# A password may hold a slash, if it does not begin as a port does.
_LOGIN_IN_ADDRESS = (
    r"(?:[^\s/@:'\"\x1b\\]{0,200}:(?!\[hidden\]@)(?:([^\s/'\"\x1b\\]{1,400})(?=@)"
    r"|(?<!\[:)(?![0-9]{1,5}[/?#\s])([^\s@:'\"\x1b\\]{1,200})(?=@[\w.-]{1,200}[:/?\s]))"
    r"|([A-Za-z0-9_.~%+-]{20,200})(?=:?@|:x-oauth-basic@))"
)
_GITHUB = _START_BESIDE + r"(gh[opsur]_[A-Za-z0-9]{20,})"
NAMES: dict[str, str] = {
    "secret": _named(r"secret(?:[_-]?key)?"),
    "token": _named("token"),
    **dict.fromkeys(("passwo", "passwd"), _named("passw(?:or)?d")),
    "pwd": rf"(?!{_FOLDER})" + _named("pwd"),
    "key": _named(
        r"(?:(?<=[_-])|(?<=api)|(?<=access)|(?<=private)|(?<=account)|(?<=shared)|(?<=signing)"
        r"|(?<=encryption)|(?<=master))key"
    ),
    "credential": _named("credential"),
    "authorization": _named("authorization"),
    "cookie": _named("cookie"),
    "signature": _named("signature"),
    "dsn": _named("dsn"),
    "bearer": _CREDENTIALS.format("bearer"),
    "basic": _CREDENTIALS.format("basic"),
    "://": "://" + _LOGIN_IN_ADDRESS,
    # As JSON is written by some.
    r":\/\/": r":\\/\\/" + _LOGIN_IN_ADDRESS,
    "sig=": r"(?:(?<=[?&;\s\"'])|(?<=u0026))sig=([A-Za-z0-9%+/=_-]{20,200})",
}
"""What may stand in front of a secret, in lower case, and how it goes on from there. The last
group that took part is the secret."""
SHAPES: dict[str, str] = {
    **dict.fromkeys(("ghp_", "gho_", "ghs_", "ghu_", "ghr_"), _GITHUB),
    "github_pat_": _START + r"(github_pat_[A-Za-z0-9_]{20,})",
    "glpat-": _START + r"(glpat-[A-Za-z0-9_-]{16,})",
    **dict.fromkeys(
        ("gldt-", "glrt-", "glptt-"),
        _START + r"(gl[a-z]{2,3}-[A-Za-z0-9_-]{16,})",
    ),
    "xox": _START + r"(xox[a-z](?:\.xox[a-z]-[0-9])?-[A-Za-z0-9-]{10,})",
    "xapp-": _START + r"(xapp-[0-9]-[A-Za-z0-9-]{20,})",
    "hooks.slack.com": r"(hooks\.slack\.com/(?:services|workflows|triggers)/[^\s\x1b\"']+)",
    "discord": r"(discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[^\s\x1b\"']+)",
    "webhookb2/": r"(webhookb2/[^\s\x1b\"']{20,})",
    # A digit, a capital or a long run: names of style sheets begin so, too.
    "sk-": (
        _START + r"(sk-(?=[A-Za-z_-]{0,80}[0-9]|(?-i:[a-z0-9_-]{0,80}[A-Z])"
        r"|(?:[a-z]{1,12}-){0,2}[a-z]{20})[A-Za-z0-9_-]{16,})"
    ),
    "k_live_": _behind("[sr]") + r"(k_live_[A-Za-z0-9]{10,})",
    "k_test_": _behind("[sr]") + r"(k_test_[A-Za-z0-9]{10,})",
    "whsec_": _START + r"(whsec_[A-Za-z0-9+/=]{16,})",
    "gsk_": _START + r"(gsk_[A-Za-z0-9]{30,})",
    "xai-": _START + r"(xai-[A-Za-z0-9]{30,})",
    "pplx-": _START + r"(pplx-[A-Za-z0-9]{30,})",
    "nvapi-": _START + r"(nvapi-[A-Za-z0-9_-]{30,})",
    "aiza": _START + r"(AIza[A-Za-z0-9_-]{30,})",
    "gocspx-": _START + r"(GOCSPX-[A-Za-z0-9_-]{20,})",
    "ya29.": _START + r"(ya29\.[A-Za-z0-9_-]{20,})",
    "npm_": _START + r"(npm_[A-Za-z0-9]{30,})",
    "pypi-": _START + r"(pypi-[A-Za-z0-9_-]{30,})",
    "rubygems_": _START + r"(rubygems_[0-9a-f]{40,})",
    "dckr_pat_": _START + r"(dckr_pat_[A-Za-z0-9_-]{20,})",
    "hf_": _START + r"(hf_[A-Za-z0-9]{30,})",
    **dict.fromkeys(("dop_v1_", "doo_v1_", "dor_v1_"), _START + r"(do[opr]_v1_[0-9a-f]{40,})"),
    **dict.fromkeys(("pat_", "pss_"), _behind("sh") + r"(p[a-z]{2}_[0-9a-fA-F]{24,})"),
    "sg.": _START + r"((?-i:SG)\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64})",
    # Behind the number of a bot.
    ":aa": r"(?<=[0-9]{8})(:(?-i:AA)[A-Za-z0-9_-]{30,})",
    # The fourth character on of a client's secret.
    "q~": r"(?<=[A-Za-z0-9_~.-]{3}[0-9])((?-i:Q)~[A-Za-z0-9_~.-]{30,})",
    "sq0": _START + r"(sq0[a-z]{3}-[A-Za-z0-9_-]{20,})",
    "hvs.": _START + r"(hv[sbr]\.[A-Za-z0-9_-]{20,})",
    "atlasv1.": _START + r"(atlasv1\.[A-Za-z0-9_-]{30,})",
    "dapi": _START + r"(dapi[0-9a-f]{32}(?:-[0-9])?)(?![0-9A-Za-z])",
    "pscale_": _START + r"(pscale_[a-z]{2,6}_[A-Za-z0-9_.-]{20,})",
    "tskey-": _START + r"(tskey-[a-z]{2,10}-[A-Za-z0-9-]{16,})",
    "nrak-": _START + r"(NRAK-[A-Za-z0-9]{20,})",
    "pmak-": _START + r"(PMAK-[A-Za-z0-9-]{30,})",
    "hrku-": _START + r"(HRKU-[A-Za-z0-9_-]{30,})",
    "key-": _START + r"(key-[0-9a-f]{32})(?![0-9A-Za-z])",
    **dict.fromkeys(("sntrys_", "sntryu_"), _START + r"(sntry[su]_[A-Za-z0-9+/=_-]{20,})"),
    **dict.fromkeys(("glsa_", "glc_"), _START + r"(gl(?:sa|c)_[A-Za-z0-9+/=_-]{24,})"),
    "figd_": _START + r"(figd_[A-Za-z0-9_-]{20,})",
    "holdfast_": _START + r"(holdfast_[0-9a-f]{8,32}_[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]{20,})?)",
    "eyj": (
        _START_BESIDE
        + r"((?-i:eyJ)[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}"
        r"|\.\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{8,}))"
    ),
    "age-secret-key-1": r"(AGE-SECRET-KEY-1[A-Za-z0-9]{20,})",
    # A private key in base64 once more, as in Kubernetes; no certificate and no public key.
    "ls0tls1crudjti": (
        _START + r"((?-i:LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM|BUUlVTVE|BQR1AgUFVC))[A-Za-z0-9+/=]{16,})"
    ),
}
"""The same for secrets that are known by how they begin."""
_HINTS = tuple(hint.encode() for hint in (*NAMES, *SHAPES))
_BLOCK_HINTS = (b"-begin", b"- begin", b"private-lines: ")

_COMMON = b' 0123456789et\n"=.,/:saonirdlc-_[]()umphgfyb'
"""The most frequent characters of logs in lower case, the most frequent first."""
_Span = tuple[int, int]


class Hider:
    """Hides what has the shape of a secret, and these values wherever they stand."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value.encode("utf-8", "surrogatepass") for value in values}
        self.values = sorted((it for it in known if len(it) >= SHORTEST_VALUE), key=len)[::-1]
        self._beginnings = {value[:_LEAST_BEGINNING] for value in self.values}
        self._finder: _Finder | None = None

    def mask(self, data: bytes, *, is_terminal: bool = False, block: Block | None = None) -> bytes:
        """The bytes with secrets covered: as many as before, and as many lines. `block` is the
        private key that is open where they begin."""
        spans = self._spans(data, is_terminal=is_terminal, block=block)
        if not spans:
            return data
        covered = bytearray(data)
        for start, end in spans:
            for begin, stop in _lines(data, start, end):
                covered[begin:stop] = _cover(stop - begin)
        return bytes(covered)

    def replace(self, data: bytes) -> bytes:
        """The bytes with a word in the place of each secret."""
        spans = self._spans(data)
        if not spans:
            return data
        parts, place = list[bytes](), 0
        for start, end in spans:
            parts += [data[place:start], HIDDEN]
            place = end
        return b"".join((*parts, data[place:]))

    def lines(self, lines: Sequence[bytes], block: Block | None = None) -> list[bytes]:
        """Lines with a word in the place of each secret. `block` is the private key that is open
        where they begin."""
        joined = b"\n".join(lines)
        spans = self._spans(joined, block=block)
        if not spans:
            return list(lines)
        pieces = [piece for start, end in spans for piece in _lines(joined, start, end)]
        pieces.reverse()
        found, place = [], 0
        for line in lines:
            parts, end = list[bytes](), place + len(line)
            while pieces and pieces[-1][0] < end:
                start, stop = pieces.pop()
                parts += [joined[place:start], HIDDEN]
                place = stop
            found.append(b"".join((*parts, joined[place:end])) if parts else line)
            place = end + 1
        return found

    def beginning(self, data: bytes) -> int:
        """How many bytes at the end are the beginning of one of the values, but not the whole."""
        longest = 0
        for value in self.values:
            most = min(len(value) - 1, len(data))
            place = max(0, len(data) - most)
            # Where its first bytes stand near the end, all that follows must be of it.
            while (place := data.find(value[:_LEAST_BEGINNING], place)) >= 0:
                if value.startswith(data[place:]):
                    longest = max(longest, len(data) - place)
                    break
                place += 1
        return longest

    def shortened(self, covered: bytes) -> bytes:
        """Covered bytes with a word in the place of each secret, where they may become fewer."""
        return _LONG_COVER.sub(HIDDEN, covered) if HIDDEN + b"*" in covered else covered

    def open_block(
        self, data: bytes, place: int, block: Block | None = None
    ) -> tuple[int, Block | None]:
        """The private key that is open at a place of these bytes. Where the place would cut a
        marker in two, it moves back to the marker's beginning."""
        place = private_keys.uncut(data, place)
        return place, private_keys.scan(data[:place], block)[1]

    def behind_hole(self, block: Block | None) -> Block:
        """The private key that may be open behind bytes that are missing."""
        return private_keys.GUESS if block is None else block

    def _spans(
        self, data: bytes, *, is_terminal: bool = False, block: Block | None = None
    ) -> list[_Span]:
        if self._finder is None:
            self._finder = _Finder(self.values)
        found: list[_Span] = []
        if self._finder.may_hold(data):
            found += self._finder.spans(data, is_terminal=is_terminal)
        elif block is None:
            return []
        if block is not None or private_keys.may_hold(data):
            found += private_keys.scan(data, block)[0]
        found.sort()
        merged: list[_Span] = []
        for start, end in found:
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged


class _Probes:
    """Finds any of several short texts, all in lower case, each by its rarest character."""

    def __init__(self, probes: Iterable[bytes], *, is_many: bool = False) -> None:
        by_character: dict[int, list[tuple[bytes, int]]] = {}
        for probe in probes:
            at = _PIVOTS.get(probe, -1)
            at = at if at >= 0 else _rarest(probe)
            by_character.setdefault(probe[at], []).append((probe, at))
        branches: list[tuple[bytes, list[tuple[bytes, int]]]] = []
        for character, entries in by_character.items():
            ways: list[bytes] = []
            ordered: list[tuple[bytes, int]] = []
            # By what follows: most places are left after a look at one more character.
            following = sorted({probe[at + 1 : at + 2] for probe, at in entries}, reverse=True)
            for after in following:
                some = [entry for entry in entries if entry[0][entry[1] + 1 :][:1] == after]
                some.sort(key=lambda entry: -len(entry[0]))  # the longest that fits is found
                ordered += some
                inner = b"|".join(_way(probe, at) for probe, at in some)
                ways.append(b"(?=%b)(?:%b)" % (re.escape(after), inner) if after else inner)
            branch = re.escape(bytes((character,)))
            if all(following) and len(following) > 1:
                branch += b"(?=[%b])" % b"".join(map(re.escape, following))
            branches.append((branch + b"(?:" + b"|".join(ways) + b")", ordered))
        if is_many:
            # One pass over all characters; few are faster one by one.
            every = [entry for _, entries in branches for entry in entries]
            branches = [(b"|".join(branch for branch, _ in branches), every)]
        self._expressions = [
            (re.compile(text), [[entry, *_within(entry, entries)] for entry in entries])
            for text, entries in branches
        ]

    def is_in(self, lower: bytes) -> bool:
        return any(expression.search(lower) for expression, _ in self._expressions)

    def find(self, lower: bytes) -> Iterator[tuple[bytes, int]]:
        """Each probe that is there, with its place."""
        for expression, entries in self._expressions:
            for found in expression.finditer(lower):
                assert found.lastindex is not None
                for probe, at in entries[found.lastindex - 1]:
                    yield probe, found.start() - at


class _Finder:
    """Finds secrets by how they begin, and by their values."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values if len(values) <= _FEW_VALUES else ()
        self._probed: dict[bytes, list[tuple[bytes, int]]] = {}
        for value in values:
            lower = value.lower()
            cut = max(0, min(_rarest(lower) - _PROBE // 2, len(lower) - _PROBE))
            self._probed.setdefault(lower[cut : cut + _PROBE], []).append((value, cut))
        is_many = len(values) > _FEW_VALUES
        self._probes = _Probes(self._probed, is_many=True) if is_many else None
        self._beginnings = {*_HINTS, *_AWS_HINTS, *_TWILIO_HINTS, *_BLOCK_HINTS, *self._probed}
        # One expression is quicker, but takes as long to make as some hundred texts do without.
        self._any: _Probes | None = None
        self._looks = _MANY_LOOKS if is_many else 0

    def may_hold(self, data: bytes) -> bool:
        """Whether it is worth a closer look; quick for short texts, of which there are many."""
        if len(data) > _SHORT:
            return True
        if self._any is None:
            self._looks += 1
            if self._looks < _MANY_LOOKS:
                return any(map(data.lower().__contains__, self._beginnings))
            self._any = _Probes(self._beginnings, is_many=True)
        return self._any.is_in(data.lower())

    def spans(self, data: bytes, *, is_terminal: bool) -> Iterator[_Span]:
        lower = data.lower()
        yield from _begun(data, lower, _shapes() if is_terminal else _all())
        if b"A" in data:
            yield from (found.span() for found in _AWS.finditer(data))
        if b"SK" in data:
            yield from (found.span() for found in _TWILIO.finditer(data))
        for value in self._values:
            start = data.find(value)
            while start >= 0:
                yield start, start + len(value)
                start = data.find(value, start + len(value))
        for probe, place in self._probes.find(lower) if self._probes is not None else ():
            for value, cut in self._probed[probe]:
                if place >= cut and data.startswith(value, place - cut):
                    yield place - cut, place - cut + len(value)


def _begun(data: bytes, lower: bytes, known: dict[bytes, str]) -> Iterator[_Span]:
    """Secrets that are known by how they begin."""
    word = word_end = looks = 0
    for hint, place in _hints().find(lower):
        pattern = known.get(hint)
        if pattern is None:
            continue
        if not word <= place < word_end:
            behind = _BEHIND_WORD.search(data, place)
            word, word_end, looks = place, behind.start() if behind else len(data), 0
        looks += 1
        if looks > _MOST_IN_WORD:
            # Made to keep us busy: each look may go through the whole word.
            if looks == _MOST_IN_WORD + 1:
                yield place, word_end
        elif secret := _pattern(pattern).match(data, place):
            start, end = secret.span(secret.lastindex or 0)
            if end > start:
                yield start, end


@cache
def _hints() -> _Probes:
    """Made when there is something to look at closely: that takes milliseconds."""
    return _Probes(_HINTS)


_LONG_COVER = pattern(re.escape(HIDDEN) + rb"\*+")


def _way(probe: bytes, at: int) -> bytes:
    """An expression for a probe whose character at this place was just found."""
    before, behind = re.escape(probe[: at + 1]), re.escape(probe[at + 1 :])
    return (b"(?<=%b)" % before if at else b"") + b"(?=%b)()" % behind


def _within(
    entry: tuple[bytes, int], entries: Iterable[tuple[bytes, int]]
) -> list[tuple[bytes, int]]:
    """Shorter probes that are there wherever this one is, around the same character."""
    probe, at = entry
    return [
        (other, place)
        for other, place in entries
        if len(other) < len(probe) and place <= at and probe.startswith(other, at - place)
    ]


def _rarest(text: bytes) -> int:
    return max(range(len(text)), key=lambda at: _rarity(text[at]))


def _rarity(character: int) -> int:
    place = _COMMON.find(character)
    return place if place >= 0 else len(_COMMON)


def _cover(size: int) -> bytes:
    return HIDDEN + b"*" * (size - len(HIDDEN)) if size >= len(HIDDEN) else b"*" * size


def _lines(data: bytes, start: int, end: int) -> Iterator[_Span]:
    while (stop := data.find(b"\n", start, end)) >= 0:
        if stop > start:
            yield start, stop
        start = stop + 1
    if end > start:
        yield start, end


@lru_cache(maxsize=1)
def _all() -> dict[bytes, str]:
    return {hint.encode(): pattern for hint, pattern in {**NAMES, **SHAPES}.items()}


@lru_cache(maxsize=1)
def _shapes() -> dict[bytes, str]:
    return {hint.encode(): pattern for hint, pattern in SHAPES.items()}


@cache
def _pattern(text: str) -> re.Pattern[bytes]:
    # Compiled when its beginning is first seen: all together they take a while.
    return re.compile(text.encode(), re.IGNORECASE)
