"""An alert as targets get it: fields for programs, a line for people. Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.secrets.redaction import redact
from holdfast.vocabulary.alerts import Alert

_MARKS = {"info": "ℹ", "warning": "⚠", "critical": "✖"}
_URGENCY = {"info": "low", "warning": "normal", "critical": "critical"}


class Notice(msgspec.Struct, frozen=True):
    """One alert on its way to one target."""

    alert: Alert
    seq: int
    """The number of its event; 0 for a reminder."""
    what: str
    """raised, cleared or reminder"""
    project: str
    host: str

    @property
    def key(self) -> str:
        """A key that is the same for every attempt, so that a receiver recognises repetitions."""
        return f"{self.alert.id}:{self.what}:{self.alert.count if self.what == 'reminder' else ''}"


def what_of(alert: Alert) -> str:
    is_over = alert.cleared_at is not None and alert.cleared_at != alert.since
    return "cleared" if is_over or alert.cleared_because else "raised"


def fields(notice: Notice) -> dict[str, Any]:
    """Return the alert as JSON; the message is redacted, because it leaves this machine."""
    alert = msgspec.structs.asdict(notice.alert)
    alert["message"] = redact(notice.alert.message)
    return {
        "event": notice.what,
        "seq": notice.seq,
        "text": text(notice),
        "alert": alert,
        "project": notice.project,
        "host": notice.host,
    }


def text(notice: Notice) -> str:
    """Return the alert in a line."""
    alert = notice.alert
    where = f" ({notice.host})" if notice.host else ""
    message = redact(alert.message)
    if notice.what == "cleared":
        return f"✔ cleared: {message}; {alert.cleared_because or 'it is over'}{where}"
    times = f", {alert.count} times" if alert.count > 1 else ""
    still = "still " if notice.what == "reminder" else ""
    return f"{_MARKS[alert.severity]} {still}{alert.severity}: {message}{times}{where}"


def body(notice: Notice, style: str) -> bytes:
    """Return the body for a webhook."""
    content = {"text": text(notice)} if style == "text" else fields(notice)
    return json.dumps(content, ensure_ascii=False).encode()


def variables(notice: Notice) -> dict[str, str]:
    """Return the environment variables for a command."""
    alert = notice.alert
    return {
        "HOLDFAST_ALERT": json.dumps(fields(notice), ensure_ascii=False),
        "HOLDFAST_ALERT_ID": alert.id,
        "HOLDFAST_EVENT": notice.what,
        "HOLDFAST_SERVICE": alert.service or "",
        "HOLDFAST_CAUSE": alert.cause,
        "HOLDFAST_SEVERITY": alert.severity,
        "HOLDFAST_MESSAGE": redact(alert.message),
    }


def desktop_argv(notice: Notice, platform: str) -> tuple[str, ...]:
    """Return the command that shows it; words are arguments, never a script."""
    title = f"Holdfast: {notice.alert.service or notice.alert.cause}"
    if platform == "darwin":
        script = ("on run words", "display notification (item 1 of words) with title "
                  "(item 2 of words)", "end run")  # fmt: skip
        lines = [word for line in script for word in ("-e", line)]
        return ("osascript", *lines, text(notice), title)
    urgency = _URGENCY[notice.alert.severity]
    # notify-send takes the body as markup with escapes, but not the title.
    body = text(notice).replace("\\", "\\\\")
    body = body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return ("notify-send", "--app-name=Holdfast", f"--urgency={urgency}", "--", title, body)
