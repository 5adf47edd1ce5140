"""What the dialects of JSON lines share. Nothing here raises for what a program printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.adapters.backends.adapter import AgentWord, Ended, Verdict
from holdfast.system.patterns import pattern
from holdfast.vocabulary.agents import AgentEventKind, FailureClass

LONGEST_TEXT = 64 << 10
"""Of a single event; the recorded bytes have all of it."""
Facts = dict[str, Any]
_VERSION = pattern(r"\d+\.\d+\.\d+[\w.+-]*")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse(line: bytes) -> Facts | None:
    """Return the object in a line; None if there is none."""
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write(facts: Facts) -> bytes:
    """Return an object as a line."""
    return _encode(facts) + b"\n"


def raw(line: bytes, stream: str = "out") -> AgentWord:
    """Return the event for a line that nobody understands: the line itself."""
    text = line.decode("utf-8", "backslashreplace")
    return AgentWord(AgentEventKind.RAW, {"text": text, "stream": stream})


def word(kind: AgentEventKind, **data: Any) -> AgentWord:
    """Return an event with the facts that are known."""
    return AgentWord(kind, {key: value for key, value in data.items() if value is not None})


def as_dict(value: object) -> Facts:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return the text in a value: itself, or the texts of its parts."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, dict):
        return as_text(value.get("text") or value.get("content"))
    if isinstance(value, list):
        return "\n".join(filter(None, map(as_text, value)))[:LONGEST_TEXT]
    return ""


def version_in(text: str) -> str | None:
    """Return the version in what a program says of itself."""
    found = _VERSION.search(text[:1000])
    return found[0] if found else None


def as_count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and value >= 0 else None  # type: ignore[operator,return-value]


SIGNS: tuple[tuple[FailureClass, tuple[str, ...]], ...] = (
    (
        FailureClass.NEEDS_LOGIN,
        (
            *("authentication_failed", "not logged in", "please run /login", "invalid api key"),
            *("invalid auth method", "auth method", "login required", "authentication required"),
            *("api key not", "401 unauthorized", "missing credentials"),
        ),
    ),
    (FailureClass.NEEDS_TRUST, ("trusted directory", "not trusted", "untrusted", "trust this")),
    (
        FailureClass.LOST_CONVERSATION,
        (
            *("no conversation found", "no rollout found", "session not found", "-32600"),
            *("no saved session", "invalid session", "conversation not found"),
        ),
    ),
    (
        FailureClass.BAD_FLAG,
        (
            *("unknown option", "unexpected argument", "unknown argument", "unrecognized option"),
            *("invalid value", "unknown flag", "requires --verbose", "error: option"),
        ),
    ),
    (FailureClass.RATE_LIMITED, ("rate limit", "rate_limit", "429", "quota", "overloaded")),
    (
        FailureClass.UPSTREAM_UNREACHABLE,
        (
            *("enotfound", "econnrefused", "etimedout", "eai_again", "unable to connect"),
            *("connection error", "network error", "fetch failed", "stream disconnected"),
            *("dns error", "reconnecting", "waiting for network", "error sending request"),
        ),
    ),
)
"""What programs print, in small letters, and the class that it is a sign of; the first wins."""
RETRIES = {
    FailureClass.UPSTREAM_UNREACHABLE: "when_network",
    FailureClass.RATE_LIMITED: "backoff",
    FailureClass.CRASHED: "backoff",
}


def class_of(texts: Sequence[str]) -> tuple[FailureClass, str] | None:
    """Return the class of failure that these texts are a sign of, and the line that says so."""
    for failure, signs in SIGNS:
        for text in texts:
            small = text.lower()
            if any(sign in small for sign in signs):
                return failure, text.strip()[:300]
    return None


def texts_of(ended: Ended) -> list[str]:
    """Return what was said about trouble, the last first."""
    said = [str(one.data.get("text") or one.data.get("cause") or "") for one in ended.events]
    return [text for text in (*reversed(ended.errors), *reversed(said)) if text.strip()]


def judge(ended: Ended, program: str, login: str, codes: dict[int, FailureClass]) -> Verdict:
    """Return the verdict by exit code and by what was printed."""
    texts = texts_of(ended)
    known = codes.get(ended.code) if ended.code is not None else None
    found = class_of(texts)
    if known is not None:
        failure, line = known, (texts[0].strip()[:300] if texts else "")
        line = found[1] if found is not None else line
    elif found is not None and not (ended.was_ready and found[0] is FailureClass.BAD_FLAG):
        failure, line = found
    elif ended.code == 127:
        failure, line = FailureClass.NOT_INSTALLED, texts[0] if texts else ""
    else:
        failure, line = FailureClass.CRASHED, (texts[0].strip()[:300] if texts else "")
    how = ended.signal or ("exit code unknown" if ended.code is None else f"exit code {ended.code}")
    sentence = {
        FailureClass.NEEDS_LOGIN: f"{program} is not logged in",
        FailureClass.NEEDS_TRUST: f"{program} does not trust this folder",
        FailureClass.LOST_CONVERSATION: f"{program} does not know the conversation any more",
        FailureClass.BAD_FLAG: f"{program} refuses its arguments",
        FailureClass.RATE_LIMITED: f"the vendor of {program} limits its requests",
        FailureClass.UPSTREAM_UNREACHABLE: f"{program} cannot reach its model",
        FailureClass.NOT_INSTALLED: f"{program} is not installed",
    }.get(failure, f"{program} ended ({how})")
    fix = {
        FailureClass.NEEDS_LOGIN: login,
        FailureClass.BAD_FLAG: "holdfast agent doctor",
    }.get(failure, "")
    sentence += f": {line}" if line else ""
    retry = RETRIES.get(failure, "never")
    return Verdict(failure=failure, sentence=sentence, fix=fix, retry=retry)  # type: ignore[arg-type]
