"""Where secrets are in bytes that a program printed: by their format, by the name in front of
them, and by their value.

Built for large texts. One expression finds the places where a secret may begin, by the rarest
character of each known beginning. Only there the text is examined closely. Finds and never
changes anything. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from holdfast.secrets import private_keys
from holdfast.secrets.private_keys import KeyBlock, Span
from holdfast.system.patterns import pattern

_PROBE_BYTES = 8
_FEW_VALUES = 64
_SHORT_TEXT = 512
_MANY_TEXTS = 200
_MOST_IN_WORD = 16
"""Beginnings of secrets that are examined in what may be one value."""
_BEHIND_WORD = pattern(rb"[\s,;&\"'\])\x1b]")
_PIVOTS = {b":aa": 0}
"""The place of the character to look for, where it is not the rarest one of the probe."""
_AWS_HINTS = (b"akia", b"asia", b"agpa", b"aida", b"aroa")
_TWILIO_HINTS = tuple(b"sk%x" % digit for digit in range(16))
# In capital letters: searched for as they are, which is fastest.
_AWS = pattern(rb"A(?:KIA|SIA|GPA|IDA|ROA)[A-Z0-9]{16}(?![A-Za-z0-9])")
_TWILIO = pattern(rb"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m)|(?<=\\[nrt]))SK[0-9a-f]{32}(?![A-Za-z0-9])")

# Colours between a name and its value stay; no span contains an escape sequence.
_COLOURS = r"(?:\x1b\[[0-9;]{0,20}m){0,3}"
# A colour, or a line end in JSON, ends with a letter that is no part of the word behind it.
_CODE_BEFORE = r"(?<=[0-9;\[]m)|(?<=\\[nrt])"
_START = rf"(?:\b|{_CODE_BEFORE})"
_START_BESIDE = rf"(?:(?<![A-Za-z0-9])|{_CODE_BEFORE})"
_SCHEME = r"(?:bearer|basic|token|api-?key|negotiate|ntlm|digest|hawk|splunk)"
_VARIABLE = r"\$\{\w{1,99}\}"
_PLAIN = r"[^\s,;&\"'}\])\x1b$]"
_BARE = rf"(?:{_PLAIN}+|(?=\$))(?:(?:{_VARIABLE}|\$){_PLAIN}*)*"
# Neither a variable alone nor the default in `${NAME:-default}` is a secret.
_TO_FILL_IN = (
    rf"\"{_VARIABLE}\"|\\\"{_VARIABLE}\\\"|'{_VARIABLE}'"
    rf"|{_VARIABLE}(?:\Z|\\?[\"']|[\s,;&}}\])\x1b])|[-?](?:default|…)?\}}"
)
_GIVEN = rf"\\?[\"']?{_COLOURS}[ \t]{{0,3}}"
_SET = rf"{_GIVEN}=>?[ \t]{{0,3}}{_COLOURS}"
# A colon may begin a sentence. A secret behind it is quoted, or is the last word.
_COLON = (
    rf"{_GIVEN}:[ \t]{{0,3}}{_COLOURS}"
    rf"(?=\\?[\"']|{_SCHEME}\s|{_BARE}\s*(?:\Z|[,;&}}\])\n\x1b]))"
)
_VALUE = (
    # Hidden values stay as they are, because texts pass through here more than once.
    rf"(?!\\?[\"']?\[hidden\]|{_TO_FILL_IN})"
    r"(?:\\\"([^\"\n\x1b]*?)\\\"|\"((?:[^\"\\\n\x1b]|\\.)*)\"|'((?:[^'\\\n\x1b]|\\.)*)'"
    rf"|({_SCHEME}[ \t]+[^\s\x1b\"']+)|[\"']?({_BARE}))"
)
_REST = r"(?:s|[_.-][\w.-]{0,30})?"


def _named(name: str) -> str:
    return rf"{name}{_REST}(?:{_SET}|{_COLON}){_VALUE}"


def _behind(text: str) -> str:
    """Return an expression for a place behind a text that begins a word."""
    return rf"(?:(?<=\b{text})|(?<=[0-9;\[]m{text})|(?<=\\[nrt]{text}))"


# The working directory of a shell: a whole path, named in capitals, not in a connection string.
_FOLDER = (
    r"(?-i:(?:(?<![\w;&.-])(?<!; )|(?<=OLD)(?<![\w;&.-]OLD))PWD)"
    r"\\?[\"']?[ \t]{0,3}[=:][ \t]{0,3}\\?[\"']?/"
)
# Models count tokens: `"input_tokens": 1234`.
_COUNT_OF_TOKENS = r"tokens\\?[\"']?[ \t]{0,3}[=:][ \t]{0,3}[0-9]{1,9}(?![\w.-])"
_CREDENTIALS = (
    rf"(?:(?<![\w-])|{_CODE_BEFORE})"
    + r"{}[ \t]+((?=\S*[0-9]|\S{{20}}|(?-i:\S+[A-Z]))[A-Za-z0-9._~+/=-]{{8,}})"
)
# A password may contain a slash, if it does not begin like a port.
_LOGIN_IN_ADDRESS = (
    r"(?:[^\s/@:'\"\x1b\\]{0,200}:(?!\[hidden\]@)(?:([^\s/'\"\x1b\\]{1,400})(?=@)"
    r"|(?<!\[:)(?![0-9]{1,5}[/?#\s])([^\s@:'\"\x1b\\]{1,200})(?=@[\w.-]{1,200}(?:[:/?\s]|\Z)))"
    r"|([A-Za-z0-9_.~%+-]{20,200})(?=:?@|:x-oauth-basic@))"
)
_GITHUB = _START_BESIDE + r"(gh[opsur]_[A-Za-z0-9]{20,})"
NAMES: dict[str, str] = {
    "secret": _named(r"secret(?:[_-]?key)?"),
    "token": rf"(?!{_COUNT_OF_TOKENS})" + _named("token"),
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
    # As some programs write it in JSON.
    r":\/\/": r":\\/\\/" + _LOGIN_IN_ADDRESS,
    "sig=": r"(?:(?<=[?&;\s\"'])|(?<=u0026))sig=([A-Za-z0-9%+/=_-]{20,200})",
}
"""Texts in front of a secret, in lower case, and the expression from there on. Its last group that
matched is the secret."""
FORMATS: dict[str, str] = {
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
    # With a digit, a capital or a long word: names of style sheets begin like this, too.
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
    # The second half of a token, behind the number of a bot.
    ":aa": r"(?<=[0-9]{8})(:(?-i:AA)[A-Za-z0-9_-]{30,})",
    # The rest of a client's secret from its fifth character on.
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
    "lin_api_": _START + r"(lin_api_[A-Za-z0-9]{30,})",
    "atatt3xff": _START + r"((?-i:ATATT3xFf)[A-Za-z0-9_=-]{40,})",
    "figd_": _START + r"(figd_[A-Za-z0-9_-]{20,})",
    "holdfast_": _START + r"(holdfast_[0-9a-f]{8,32}_[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]{20,})?)",
    "eyj": (
        _START_BESIDE
        + r"((?-i:eyJ)[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}"
        r"|\.\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{8,}))"
    ),
    "age-secret-key-1": r"(AGE-SECRET-KEY-1[A-Za-z0-9]{20,})",
    # A private key in base64 twice, as in Kubernetes; no certificate and no public key.
    "ls0tls1crudjti": (
        _START + r"((?-i:LS0tLS1CRUdJTi(?!BDRVJU|BQVUJM|BUUlVTVE|BQR1AgUFVC))[A-Za-z0-9+/=]{16,})"
    ),
}
"""The same for secrets with a known format, by their beginnings."""
_HINTS = tuple(hint.encode() for hint in (*NAMES, *FORMATS))
_BLOCK_HINTS = (b"-begin", b"- begin", b"private-lines: ")

_COMMON = b' 0123456789et\n"=.,/:saonirdlc-_[]()umphgfyb'
"""The characters of logs in lower case, the most frequent first."""


class _Probes:
    """Finds any of several short texts (probes) in lower case, each by its rarest character."""

    def __init__(self, probes: Iterable[bytes], *, is_many: bool = False) -> None:
        by_character: dict[int, list[tuple[bytes, int]]] = {}
        for probe in probes:
            at = _PIVOTS.get(probe, -1)
            at = at if at >= 0 else _rarest(probe)
            by_character.setdefault(probe[at], []).append((probe, at))
        branches: list[tuple[bytes, list[tuple[bytes, int]]]] = []
        for character, entries in by_character.items():
            alternatives: list[bytes] = []
            ordered: list[tuple[bytes, int]] = []
            # Grouped by the next character, which rules out most places.
            following = sorted({probe[at + 1 : at + 2] for probe, at in entries}, reverse=True)
            for after in following:
                some = [entry for entry in entries if entry[0][entry[1] + 1 :][:1] == after]
                some.sort(key=lambda entry: -len(entry[0]))  # the longest that matches wins
                ordered += some
                inner = b"|".join(_expression_around(probe, at) for probe, at in some)
                alternative = b"(?=%b)(?:%b)" % (re.escape(after), inner) if after else inner
                alternatives.append(alternative)
            branch = re.escape(bytes((character,)))
            if all(following) and len(following) > 1:
                branch += b"(?=[%b])" % b"".join(map(re.escape, following))
            branches.append((branch + b"(?:" + b"|".join(alternatives) + b")", ordered))
        if is_many:
            # One pass over the text; for few probes one pass each is faster.
            every = [entry for _, entries in branches for entry in entries]
            branches = [(b"|".join(branch for branch, _ in branches), every)]
        self._expressions = [
            (re.compile(text), [[entry, *_within(entry, entries)] for entry in entries])
            for text, entries in branches
        ]

    def is_in(self, lower: bytes) -> bool:
        return any(expression.search(lower) for expression, _ in self._expressions)

    def find(self, lower: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each probe that is there, with its place."""
        for expression, entries in self._expressions:
            for found in expression.finditer(lower):
                assert found.lastindex is not None
                for probe, at in entries[found.lastindex - 1]:
                    yield probe, found.start() - at


class Finder:
    """Finds secrets by their format and name, and these values wherever they are."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._few_values = values if len(values) <= _FEW_VALUES else ()
        self._probed: dict[bytes, list[tuple[bytes, int]]] = {}
        for value in values:
            lower = value.lower()
            cut = max(0, min(_rarest(lower) - _PROBE_BYTES // 2, len(lower) - _PROBE_BYTES))
            self._probed.setdefault(lower[cut : cut + _PROBE_BYTES], []).append((value, cut))
        is_many = len(values) > _FEW_VALUES
        self._value_probes = _Probes(self._probed, is_many=True) if is_many else None
        self._beginnings = {*_HINTS, *_AWS_HINTS, *_TWILIO_HINTS, *_BLOCK_HINTS, *self._probed}
        # One expression is faster, but to build it takes as long as some hundred texts without.
        self._any_beginning: _Probes | None = None
        self._texts = _MANY_TEXTS if is_many else 0

    def find(
        self, data: bytes, *, is_terminal: bool = False, block: KeyBlock | None = None
    ) -> list[Span]:
        """Return the spans of all secrets, in order, without overlaps. `block` is the private key
        that is open where the bytes begin. Of a terminal, names in front of values are ignored:
        a user sees what they type."""
        found: list[Span] = []
        if self._may_hold(data):
            found += self._spans(data, is_terminal=is_terminal)
        elif block is None:
            return []
        if block is not None or private_keys.may_hold(data):
            found += private_keys.scan(data, block)[0]
        found.sort()
        merged: list[Span] = []
        for start, end in found:
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def _may_hold(self, data: bytes) -> bool:
        """Whether the text needs a close look. Fast for short texts, of which there are many."""
        if len(data) > _SHORT_TEXT:
            return True
        if self._any_beginning is None:
            self._texts += 1
            if self._texts < _MANY_TEXTS:
                return any(map(data.lower().__contains__, self._beginnings))
            self._any_beginning = _Probes(self._beginnings, is_many=True)
        return self._any_beginning.is_in(data.lower())

    def _spans(self, data: bytes, *, is_terminal: bool) -> Iterator[Span]:
        lower = data.lower()
        yield from _spans_by_beginning(data, lower, _formats() if is_terminal else _all())
        if b"A" in data:
            yield from (found.span() for found in _AWS.finditer(data))
        if b"SK" in data:
            yield from (found.span() for found in _TWILIO.finditer(data))
        for value in self._few_values:
            start = data.find(value)
            while start >= 0:
                yield start, start + len(value)
                start = data.find(value, start + len(value))
        if self._value_probes is None:
            return
        for probe, place in self._value_probes.find(lower):
            for value, cut in self._probed[probe]:
                if place >= cut and data.startswith(value, place - cut):
                    yield place - cut, place - cut + len(value)


def _spans_by_beginning(data: bytes, lower: bytes, known: dict[bytes, str]) -> Iterator[Span]:
    """Find secrets that are known by how they begin."""
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
            # Such a word is made to keep us busy: each match may read all of it.
            if looks == _MOST_IN_WORD + 1:
                yield place, word_end
        elif secret := _pattern(pattern).match(data, place):
            start, end = secret.span(secret.lastindex or 0)
            if end > start:
                yield start, end


@cache
def _hints() -> _Probes:
    """Built when the first text needs a close look, because it takes milliseconds."""
    return _Probes(_HINTS)


def _expression_around(probe: bytes, at: int) -> bytes:
    """Return an expression for a probe whose character at this place was just found."""
    before, behind = re.escape(probe[: at + 1]), re.escape(probe[at + 1 :])
    return (b"(?<=%b)" % before if at else b"") + b"(?=%b)()" % behind


def _within(
    entry: tuple[bytes, int], entries: Iterable[tuple[bytes, int]]
) -> list[tuple[bytes, int]]:
    """Return the shorter probes that this one contains around the same character."""
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


@cache
def _all() -> dict[bytes, str]:
    return {hint.encode(): pattern for hint, pattern in {**NAMES, **FORMATS}.items()}


@cache
def _formats() -> dict[bytes, str]:
    return {hint.encode(): pattern for hint, pattern in FORMATS.items()}


@cache
def _pattern(text: str) -> re.Pattern[bytes]:
    # Compiled when its beginning is first seen, because all together take long.
    return re.compile(text.encode(), re.IGNORECASE)
