"""What follows from an event, an end or a limit of an agent's session. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from holdfast.vocabulary.specs.backends import ApprovalRule, BackendSpec, BudgetSpec

GOOD_START_SECONDS = 5.0
"""A run without a sign of being ready has started well when it is this old."""
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0
NETWORK_DELAY_SECONDS = 15.0
DEEPEST = 3
"""So many sessions may stand one behind the other, each delegated to by the one before."""
_COMMANDS = ("command", "cmd")
_PATHS = ("file_path", "path", "notebook_path", "cwd", "filePath", "absolute_path", "dir_path")
_ON = ("command", "file_path", "path", "url", "notebook_path", "pattern", "cwd")
_KNOWN = tuple(dict.fromkeys((*_ON, *_COMMANDS, *_PATHS)))
_KEY_OF = {
    "Bash": "command",
    "shell": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "WebFetch": "url",
    "Grep": "path",
}
"""What says on what these tools are used; of any other tool every known key does."""
_OPERATORS = re.compile(r"[;&|`$()<>\n\r]+")
"""With these a shell does more than the command that a text begins with."""
Next = Literal["restart", "suppress", "rest"]


def after_end(retry: str, *, was_good: bool, crashes: int, most: int) -> tuple[Next, float]:
    """Return what follows the end of a run that nobody stopped, and after how many seconds.

    `crashes` counts this one. A bad start is never tried again: it would fail in the same way.
    """
    if not was_good or retry in ("never", "after_login"):
        return "rest", 0.0
    if retry == "when_network":
        return "restart", NETWORK_DELAY_SECONDS
    if crashes >= most:
        return "suppress", 0.0
    return "restart", min(FIRST_DELAY_SECONDS * 2.0 ** (crashes - 1), LONGEST_DELAY_SECONDS)


def target_of(given: Mapping[str, Any]) -> str:
    """Return what a tool is used on: the command, the path, the address."""
    for name in _ON:
        value = given.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(map(str, value))
    return ""


def rule_for(spec: BackendSpec, tool: str, given: Mapping[str, Any], folder: str) -> ApprovalRule:
    """Return what the first matching rule says about a permission of a session in a folder.

    A rule that allows must match everything that the tool is used on, as it will be understood; one
    that refuses or asks needs to match one reading only.
    """
    for rule in spec.rules:
        if not fnmatchcase(tool, rule.tool):
            continue
        if rule.then == "allow":
            is_meant = _is_covered(rule.on, tool, given, folder)
        else:
            is_meant = any(fnmatchcase(text, rule.on) for text in _readings(given, folder))
        if is_meant:
            return rule.then
    return "ask"


def _is_covered(pattern: str, tool: str, given: Mapping[str, Any], folder: str) -> bool:
    """Return whether a pattern matches all that a tool is used on."""
    if pattern == "*":
        return True
    key = _KEY_OF.get(tool)
    keys = [name for name in _KNOWN if name in given] if key is None else [key]
    return bool(keys) and all(_is_matched(pattern, key, given.get(key), folder) for key in keys)


def _is_matched(pattern: str, key: str, value: object, folder: str) -> bool:
    if key in _PATHS:
        forms = _forms(value, folder) if isinstance(value, str) else ()
        return any(fnmatchcase(form, pattern) for form in forms)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = shlex.join(value)
    if not isinstance(value, str):
        return False
    if key in _COMMANDS and _OPERATORS.search(value):
        return value == pattern
    return fnmatchcase(value, pattern)


def _forms(path: str, folder: str) -> tuple[str, ...]:
    """Return a path without `..`, from the root and, if it is in the folder, from there.

    Nothing is returned for one that a program may look up elsewhere.
    """
    if not path or path.startswith("~"):
        return ()
    absolute = "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")
    inside = posixpath.normpath(folder).rstrip("/") + "/"
    return (absolute, absolute[len(inside) :]) if absolute.startswith(inside) else (absolute,)


def _readings(given: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Yield every text that could be what a tool is used on, and each command in a command."""
    is_known = False
    for key in _KNOWN:
        text = target_of({"command": given.get(key)})
        if not text:
            continue
        is_known = True
        yield text
        if key in _PATHS:
            yield from _forms(text, folder)
        if key in _COMMANDS:
            yield from (" ".join(part.split()) for part in _OPERATORS.split(text))
    if not is_known:
        yield ""


def exceeded(
    budget: BudgetSpec, *, tokens: int, cost: float, turns: int, seconds: float
) -> str | None:
    """Return which limit is reached, in words; None if none is. `turns` are those that ended."""
    if budget.tokens is not None and tokens >= budget.tokens:
        return f"it has used {tokens} of {budget.tokens} tokens"
    if budget.cost is not None and cost >= budget.cost:
        return f"it has cost {cost:.2f} of {budget.cost:.2f}"
    if budget.turns is not None and turns >= budget.turns:
        return f"it has had {turns} of {budget.turns} turns"
    if budget.seconds is not None and seconds >= budget.seconds:
        return f"it has worked {seconds:.0f} of {budget.seconds:.0f} seconds"
    return None


def free_name(backend: str, taken: Iterable[str]) -> str:
    """Return a name for the service of a new session."""
    names = set(taken)
    number = 1
    while f"{backend}-{number}" in names:
        number += 1
    return f"{backend}-{number}"


def as_markdown(head: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> str:
    """Return a transcript for people."""
    parts = [f"# {head['session']}\n\n{head['backend']} in `{head['folder']}`\n"]
    is_answering = False
    for event in events:
        kind, data = event["kind"], event
        if kind == "text.delta":
            parts.append(("" if is_answering else "\n") + str(data.get("text", "")))
            is_answering = True
            continue
        if is_answering:
            parts.append("\n\n")
        is_answering = False
        match kind:
            case "turn.started":
                parts.append(f"\n## Turn {data.get('turn')}\n\n{_quoted(data.get('text'))}\n")
            case "tool.started":
                title = data.get("title") or target_of(data.get("input") or {})
                parts.append(f"\n- **{data.get('tool')}** `{_line(title)}`\n")
            case "tool.finished" if data.get("is_error"):
                parts.append(f"\n  - failed: {_line(data.get('text'))}\n")
            case "approval.settled":
                word = "allowed" if data.get("is_approved") else "refused"
                reason = f": {_line(data['reason'])}" if data.get("reason") else ""
                parts.append(f"\n  - {word}{reason}\n")
            case "warning" | "retrying":
                parts.append(f"\n> {_line(data.get('text') or data.get('cause'))}\n")
            case "run.ended":
                parts.append(
                    f"\n> its process ended: {_line(data.get('sentence')) or 'it was stopped'}\n"
                )
            case "turn.finished" if data.get("reason") != "done":
                parts.append(f"\n> {data.get('reason')}: {_line(data.get('text'))}\n")
            case _:
                pass
    return "".join(parts) + "\n"


def _quoted(text: object) -> str:
    return "\n".join(f"> {line}" for line in str(text or "").splitlines())


def _line(text: object) -> str:
    return " ".join(str(text or "").split())[:300]
