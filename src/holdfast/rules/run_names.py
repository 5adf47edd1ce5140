"""How a run is called that nobody named: by what it does, not by the program that reads it.

`python app.py` is `app`, `npm run dev` is `npm-dev`, `npx vite` is `vite`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from holdfast.vocabulary.names import OWN_NAMES

_INTERPRETER = re.compile(
    r"(python|pypy|node|ruby|perl|php|lua|tsx|ts-node|deno|bun|bash|zsh|dash|ksh|sh|rscript)[\d.]*"
)
_STARTERS = {
    "npx": (), "bunx": (), "pnpx": (), "uvx": (),
    "uv": ("run",), "poetry": ("run",), "pipenv": ("run",), "pdm": ("run",), "hatch": ("run",),
    "pipx": ("run",), "bundle": ("exec",), "nohup": (), "env": (), "exec": (),
}  # fmt: skip
"""Programs that run the rest of the line, with the words that come first."""
_TASK_RUNNERS = frozenset(
    {"npm", "pnpm", "yarn", "bun", "make", "just", "task", "cargo", "go", "rake"}
)
_TASK = re.compile(r"[A-Za-z][\w:.-]{0,30}")
_LONGEST = 60


def name_of(argv: Sequence[str]) -> str:
    """Return a name for a command line that can name a service."""
    program = os.path.basename(argv[0]).lower()
    rest = list(argv[1:])
    if program in _STARTERS and tuple(rest[: len(_STARTERS[program])]) == _STARTERS[program]:
        following = rest[len(_STARTERS[program]) :]
        while following and (following[0].startswith("-") or "=" in following[0]):
            following.pop(0)
        if following:
            return name_of(following)
    if program in _TASK_RUNNERS:
        words = [word for word in rest if not word.startswith("-") and word != "run"]
        if words and _TASK.fullmatch(words[0]):
            return _plain(f"{program}-{words[0]}")
    if _INTERPRETER.fullmatch(program) and (script := _script(rest)):
        return _plain(script)
    return _plain(program)


def _script(words: list[str]) -> str:
    """Return what an interpreter is given to run: a module, or a file without its ending."""
    for place, word in enumerate(words):
        if word == "-m" and place + 1 < len(words):
            return words[place + 1]
        if word.startswith("-"):
            if word not in ("-u", "-B", "-I", "-s", "-E", "-O"):
                return ""
            continue
        return os.path.splitext(os.path.basename(word))[0]
    return ""


def _plain(word: str) -> str:
    letters = (one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in word)
    name = "".join(letters).lower().removeprefix(OWN_NAMES).strip("._-")
    return name[:_LONGEST].strip("._-") or "command"


def numbered(name: str, number: int) -> str:
    """Return a further name for another command that is called the same."""
    return name if number == 1 else f"{name}-{number}"
