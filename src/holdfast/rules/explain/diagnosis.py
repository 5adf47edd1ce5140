"""What an ending, a failed step or a line of output usually means. Pure; tables of knowledge.

Says «may» where it cannot know, and nothing where it has no idea.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from holdfast.vocabulary.quantities import signal_name

CODES: dict[int, str] = {
    0: "success",
    1: "a general failure; its last lines may say more",
    2: "often wrong arguments, or a shell script with a mistake in it",
    64: "wrong usage, by the convention of sysexits",
    65: "bad input data, by the convention of sysexits",
    66: "an input that cannot be opened, by the convention of sysexits",
    69: "something it needs is not available, by the convention of sysexits",
    70: "an internal error, by the convention of sysexits",
    73: "an output that cannot be created, by the convention of sysexits",
    74: "an input/output error, by the convention of sysexits",
    75: "a temporary failure, by the convention of sysexits",
    77: "not permitted, by the convention of sysexits",
    78: "a mistake in its configuration, by the convention of sysexits",
    126: "a shell found the command but could not run it: not executable, or no permission",
    127: "a shell did not find the command: is it in PATH, is it spelt right?",
    255: "often a failed ssh, or a program that exits with -1",
}
SIGNALS: dict[str, str] = {
    "SIGKILL": "it was killed without a chance to clean up: perhaps because memory ran out, by a "
    "stop whose grace was over, or by hand",
    "SIGTERM": "it was asked to end, by us or by hand",
    "SIGINT": "it was interrupted, as by Ctrl-C",
    "SIGHUP": "its terminal or connection was closed",
    "SIGQUIT": "it was asked to end and to leave a core dump",
    "SIGSEGV": "it touched memory that is not its own: a bug in native code",
    "SIGBUS": "it touched memory that is not there: a bug in native code, or a file cut short",
    "SIGABRT": "it gave up by itself: a failed assertion, or a fatal error of its runtime",
    "SIGILL": "it met an instruction that this processor does not have",
    "SIGFPE": "it divided by zero, or the like",
    "SIGPIPE": "it wrote to somebody who no longer reads",
    "SIGXCPU": "it used more CPU time than its limit",
    "SIGXFSZ": "it wrote a file larger than its limit",
    "SIGSYS": "it made a system call that is forbidden to it",
    "SIGTRAP": "it ran into a breakpoint, or a fatal error of its runtime",
}
STAGES: dict[str, str] = {
    "directory": "does the folder exist, and may the user enter it? working_dir is {working_dir}",
    "user": "does the user exist? Only root can run services as another user",
    "limits": "a limit may not be raised above the hard limit of this host (`ulimit -H -a`)",
    "room": "`limits: {{queue_when_busy: true}}` lets a start wait for room instead of failing",
    "cgroup": "`holdfast doctor` tells what this host allows",
    "session": "`holdfast doctor` tells what this host allows",
    "environment": "a variable or an argument may hold a NUL character, or there are too many",
    "pipes": "the host may be out of file descriptors; `holdfast doctor` tells the limit",
}


def ending_words(code: int | None, signal: str | None) -> str:
    """Return what an exit code or a signal usually means; empty if there is neither."""
    if signal is not None:
        return SIGNALS.get(signal, f"it was ended by {signal}")
    if code is None:
        return ""
    if code in CODES:
        return CODES[code]
    if 128 < code < 160:
        name = signal_name(code - 128)
        what = SIGNALS.get(name, f"it was ended by {name}")
        return f"128 + {code - 128}: a shell tells so that {name} ended its command; {what}"
    return "defined by the program; see its documentation"


def stage_hint(stage: str | None, reason: str, argv: tuple[str, ...], working_dir: str) -> str:
    """Return what to look at when a step of starting failed."""
    program = argv[0] if argv else "the command"
    if stage == "exec" or (stage is None and "exec" in reason):
        if "No such file" in reason or "not found" in reason:
            if "/" in program:
                return f"is the path right? {program} is looked up from {working_dir}"
            return f"command not found: is {program} installed, and in the PATH of the service?"
        if "Permission denied" in reason:
            return f"is {program} executable? chmod +x makes it so"
        if "Exec format" in reason:
            return f"does {program} begin with a #! line, and is it built for this machine?"
        return ""
    return STAGES.get(stage or "", "").format(working_dir=working_dir)


_IN_USE = re.compile(
    r"EADDRINUSE|address (?:is )?already in use|port \d+ (?:is|was) (?:already )?(?:in use|taken"
    r"|allocated|occupied)|Only one usage of each socket",
    re.IGNORECASE,
)
_PORT = re.compile(r"(?:port|:|\])\s*[=:]?\s*(\d{2,5})\b", re.IGNORECASE)
_LINES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"No module named '?([\w.]+)"),
        lambda found: f"the Python module {found[1]} is missing: is it installed where this runs?",
    ),
    (
        re.compile(r"Cannot find (?:module|package) '([^']{1,80})'"),
        lambda found: f"the package {found[1]} is missing: was `npm install` run?",
    ),
    (
        re.compile(r"(?:^|[:\s/])([\w./+-]{1,80}): (?:command )?not found\b"),
        lambda found: (
            f"command not found: is {found[1]} installed, and in the PATH of the service?"
        ),
    ),
    (
        re.compile(r"ECONNREFUSED|Connection refused|could not connect to server", re.IGNORECASE),
        lambda found: (
            "something it needs does not answer: `depends_on` with `condition: ready` waits"
        ),
    ),
    (
        re.compile(
            r"out of memory|ENOMEM|Cannot allocate memory|MemoryError|heap limit", re.IGNORECASE
        ),
        lambda found: "memory ran out: give it more, or look for what it keeps",
    ),
    (
        re.compile(r"No space left on device|ENOSPC", re.IGNORECASE),
        lambda found: "a disk is full, or the limit of watched files is reached",
    ),
    (
        re.compile(r"Too many open files|EMFILE", re.IGNORECASE),
        lambda found: "too many open files: raise `rlimits: {nofile: …}`, or look for a leak",
    ),
    (
        re.compile(r"(?:Permission denied|EACCES)(?:.{0,20}?['\"]?(/[\w./-]{1,120}))?"),
        lambda found: f"permission denied: may its user use {found[1] or 'what found names'}?",
    ),
    (
        re.compile(r"No such file or directory:? '?([\w./-]{1,120})|ENOENT.{0,60}?'([^']{1,120})'"),
        lambda found: f"{found[1] or found[2]} does not exist, seen from its working_dir",
    ),
)


def ports_in_use(lines: Iterable[str]) -> list[int]:
    """Return the ports that the output calls taken."""
    found: list[int] = []
    for line in lines:
        if _IN_USE.search(line):
            found += [int(port) for port in _PORT.findall(line) if 0 < int(port) < 65536]
    return list(dict.fromkeys(found))


def says_in_use(lines: Iterable[str]) -> bool:
    return any(_IN_USE.search(line) for line in lines)


def line_hints(lines: Iterable[str]) -> list[str]:
    """Return what the last lines of output point at, each thing once, the newest first."""
    found: list[str] = []
    for line in reversed(list(lines)):
        for pattern, words in _LINES:
            if match := pattern.search(line):
                found.append(words(match))
                break
    return list(dict.fromkeys(found))[:4]
