"""Advice of ours, in words of the tools.

Hints are written once for every door, with names of commands and verbs. A model has tools; what
only its user can do is said to be that.
"""

from __future__ import annotations

import re

_FILES = {"list_files": "read", "read_file": "read", "write_file": "write", "edit_file": "edit"}
_LOOKING = ("status", "diff", "log", "show", "blame", "branches")
_ACTIONS = ("start", "stop", "restart", "pause", "resume")
_VERBS = {
    "status": "`status`",
    "logs": "`logs`",
    "explain": "`status` with detail",
    **{verb: f"`control` with action {verb}" for verb in _ACTIONS},
}
_COMMAND = re.compile(rf"`?\b(git_(?:stash drop|[a-z]+)|{'|'.join(_FILES)})\b`?")
_VERB = re.compile(r"`holdfast ([a-z]+)[^`]*`")
_OF_NO_USE = "see the reference of"


def in_tools(advice: str) -> str:
    """The same advice for who has the tools alone."""
    if advice.startswith(_OF_NO_USE):
        return ""
    told = _VERB.sub(lambda found: _VERBS.get(found[1], found[0]), _COMMAND.sub(_tool, advice))
    return f"for the user: {told}" if "`holdfast " in told else told


def _tool(found: re.Match[str]) -> str:
    name = found[1]
    if name in _FILES:
        return f"`{_FILES[name]}`"
    operation = name.removeprefix("git_").replace(" ", "_")
    if operation == "change":
        return found[0]
    tool = "git" if operation in _LOOKING else "git_change"
    return f"`{tool}` with op {operation}"
