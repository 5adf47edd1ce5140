"""`${NAME}`, `${NAME:-default}` and `$$` in values, and command lines split like a shell's words.

A bare `$NAME` is left alone, because it belongs to the shell. The values of variables never appear
in the errors raised here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from holdfast.adapters.config.problems import repeat_safely
from holdfast.system.patterns import pattern
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.names import closest

_HEAD = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(:?[-?])?")
_OPERATOR = pattern(r"&&|\|\|?|;|&|\d?>{1,2}(&\d)?|<{1,2}|\d?>{1,2}\S+")
_VARIABLE = pattern(r"\$[A-Za-z_][A-Za-z0-9_]*")
_PATTERN = pattern(r"~(/|$)|(?!\w+://)[^=:]*\*")
_ASSIGNMENT = pattern(r"[A-Za-z_][A-Za-z0-9_]*=")
_BLANK = " \t\r\n"
DEEPEST_DEFAULT = 16
_ESCAPED = ("$", "`", '"', "\\", "\n")
"""Characters that a backslash escapes within double quotes. An escaped line break disappears."""


class InterpolationError(ValueError):
    """A `${…}` that cannot be replaced."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message)
        self.suggestion = suggestion


class WordsError(ValueError):
    """A command line that cannot be split into words."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message)
        self.suggestion = suggestion


def expand(text: str, environ: Mapping[str, str], depth: int = 0) -> str:
    """Replace every `${…}` of a text from this environment, and `$$` by `$`."""
    if "$" not in text:
        return text
    if depth > DEEPEST_DEFAULT:
        message = f"defaults stand in defaults more than {DEEPEST_DEFAULT} deep"
        raise InterpolationError(message, "write ${NAME:-default}")
    parts: list[str] = []
    at = 0
    while True:
        dollar = text.find("$", at)
        if dollar < 0:
            return "".join(parts) + text[at:]
        parts.append(text[at:dollar])
        value, at = expand_at(text, dollar, environ, depth)
        parts.append(value)


def expand_at(
    text: str, dollar: int, environ: Mapping[str, str], depth: int = 0
) -> tuple[str, int]:
    """Return what replaces the `$` at this place, and where the text goes on."""
    following = text[dollar + 1 : dollar + 2]
    if following == "$":
        return "$", dollar + 2
    if following != "{":
        return "$", dollar + 1
    end = _closing_brace(text, dollar + 2)
    if end is None:
        raise InterpolationError("${ is not closed", "write ${NAME}, or $${ for a plain ${")
    inner = text[dollar + 2 : end]
    head = _HEAD.match(inner)
    if head is None or (head[2] is None and head.end() != len(inner)):
        raise InterpolationError(
            f"${{{inner}}} is not understood",
            "write ${NAME} or ${NAME:-default}; for the shell's own ${…} write $${…}",
        )
    name, operator = head[1], head[2]
    value = environ.get(name)
    if value is not None and (value or operator in (None, "-", "?")):
        return value, end + 1
    rest = inner[head.end() :]
    if operator in (":-", "-"):
        return expand(rest, environ, depth + 1), end + 1
    what = "is not set" if value is None else "is empty"
    if operator in (":?", "?"):
        raise InterpolationError(f"the variable {name} {what}", rest or _how_to_set(name, environ))
    raise InterpolationError(f"the variable {name} {what}", _how_to_set(name, environ))


def _how_to_set(name: str, environ: Mapping[str, str]) -> str:
    guess = closest(name, list(environ))
    nearby = f"did you mean {guess}? or " if guess else ""
    return f"{nearby}set it in the shell or in .env, or write ${{{name}:-default}}"


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "{" and text[at - 1] == "$":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return None


Expander = Callable[[str, int], "tuple[str, int]"]


class CommandLineWords:
    """Splits one command line; quotes, backslashes and `${…}` mean what they mean to a shell.

    An unquoted `${…}` may give several words or none, a quoted one is always one.
    `operators` are the unquoted words that only a shell would understand, `unexpanded` what it
    would replace.
    """

    def __init__(self, text: str, expander: Expander | None) -> None:
        self.words: list[str] = []
        self.operators: list[str] = []
        self.unexpanded: list[str] = []
        """What a shell would replace, and nothing else does: `$HOME`, `~/x`, `*.py`."""
        self.word: list[str] = []
        self.has_word = False
        self.was_quoted = False
        self.text = text
        self.expander = expander
        at = 0
        while at < len(text):
            at = self.step(at)
        self.end_word()

    def step(self, at: int) -> int:
        char = self.text[at]
        if char in _BLANK:
            self.end_word()
            return at + 1
        if char == "\\":
            if at + 1 == len(self.text):
                raise WordsError("the command ends with a lone backslash", "write \\\\")
            if self.text[at + 1] != "\n":
                self.add(self.text[at + 1], quoted=True)
            return at + 2
        if char in "'\"":
            return self.quoted(char, at)
        if char == "$" and (variable := _VARIABLE.match(self.text, at)):
            self.unexpanded.append(variable[0])
        if char == "$" and self.expander is not None:
            value, after = self.expander(self.text, at)
            self.add_split(value, is_literal=self.text[at + 1 : at + 2] != "{")
            return after
        self.add(char)
        return at + 1

    def quoted(self, quote: str, start: int) -> int:
        self.add("", quoted=True)
        at = start + 1
        while at < len(self.text):
            char = self.text[at]
            if char == quote:
                return at + 1
            if char == "\\" and quote == '"' and self.text[at + 1 : at + 2] in _ESCAPED:
                self.add(self.text[at + 1].strip("\n"))
                at += 2
            elif char == "$" and self.expander is not None:
                value, at = self.expander(self.text, at)
                self.add(value)
            else:
                self.add(char)
                at += 1
        name = "double quote" if quote == '"' else "single quote"
        raise WordsError(
            f"the {name} at character {start + 1} of the command is not closed",
            "close it, or write \\" + quote + " for the character itself",
        )

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.word.append(text)
        self.has_word = True
        self.was_quoted = self.was_quoted or quoted

    def add_split(self, value: str, *, is_literal: bool) -> None:
        if is_literal:
            self.add(value)
            return
        pieces = value.split()
        if value[:1].isspace():
            self.end_word()
        for number, piece in enumerate(pieces):
            if number:
                self.end_word()
            self.add(piece, quoted=True)
        if pieces and value[-1].isspace():
            self.end_word()

    def end_word(self) -> None:
        if self.has_word:
            word = "".join(self.word)
            self.words.append(word)
            if not self.was_quoted and self.is_for_a_shell(word):
                self.operators.append(word)
            if not self.was_quoted and not word.startswith("-") and _PATTERN.match(word):
                self.unexpanded.append(word)
        self.word = []
        self.has_word = False
        self.was_quoted = False

    def is_for_a_shell(self, word: str) -> bool:
        if len(self.words) == 1 and _ASSIGNMENT.match(word):
            return True
        if word.endswith(";") and word != ";":
            return True
        return _OPERATOR.fullmatch(word) is not None

    @property
    def is_assignment(self) -> bool:
        return self.operators[:1] == self.words[:1] and "=" in self.words[0]

    def shell_needed(self) -> tuple[str, str] | None:
        """Return what only a shell understands, and the remedy; never the value of a variable."""
        if not self.operators:
            return None
        shown = self.operators[0]
        if self.is_assignment:
            message = f"the command begins with a variable ({shown.split('=')[0]}=…)"
            return message, "put it under env, or add shell: true"
        return f"only a shell understands {shown}", "add shell: true, or put quotes around it"


def split_command(text: str) -> list[str]:
    """Split a command line into words as a shell does. Nothing is expanded."""
    try:
        split = CommandLineWords(text, None)
    except WordsError as error:
        shown = repeat_safely(text)
        message = f"{error}: {shown}" if shown else str(error)
        raise ConfigError(message, error.suggestion) from None
    if not split.words:
        raise ConfigError("the command is empty", "write the program and its arguments")
    if needed := split.shell_needed():
        raise ConfigError(needed[0], "write sh -c '…', or put quotes around it")
    return split.words


_INDEX = pattern(r"\{\{\s*(?:(\d{1,9})\s*\+\s*)?index(?:\s*([+-])\s*(\d{1,9}))?\s*\}\}")


_PLACEHOLDER = pattern(r"(?<!\{)\{\{\s*([A-Za-z_0-9][\w.@-]*(?:\s*[+-]\s*\w+)?)\s*\}\}(?!\})")
_PORT = pattern(r"(?:services\.[a-z0-9][a-z0-9._@-]*\.)?(?:port|ports\.[A-Za-z0-9_-]+)")
PLACEHOLDERS = ("index", "port", "ports.NAME", "services.NAME.port", "services.NAME.ports.NAME")


def unknown_placeholder(text: str, *, has_index: bool) -> tuple[str, str] | None:
    """Return the problem with a `{{ … }}` that means nothing, and the remedy. What is no single
    word, as `{{.Names}}` or `{{json .}}`, belongs to another program."""
    for found in _PLACEHOLDER.finditer(text) if "{{" in text else ():
        word = found[1]
        if _PORT.fullmatch(word):
            continue
        shown = f"{{{{ {word} }}}}"
        if _INDEX.fullmatch(found[0]):
            if has_index:
                continue
            return f"{shown} is used, but the service has no instances", "write instances: 2"
        guess = closest(word, ["index", "port", "ports", "services"])
        meant = f"did you mean {{{{ {guess} }}}}? " if guess else ""
        hint = f"{meant}known: {', '.join(PLACEHOLDERS)}; for another program, double its braces"
        return f"{shown} means nothing", f"{hint}: {{{{{{{{ {word} }}}}}}}}"
    return None


def undouble(text: str) -> str:
    """Return the text with `{{{{` and `}}}}`, which stand for braces of another program, halved."""
    if "{{{{" not in text:
        return text
    return text.replace("{{{{", "{{").replace("}}}}", "}}")


def fill_index(text: str, index: int) -> str:
    """Replace `{{ index }}`, `{{ index + 8000 }}` and `{{ 8000 + index }}` for one instance."""
    if "{{" not in text:
        return text

    def number(found: re.Match[str]) -> str:
        value = index + int(found[1] or 0)
        other = int(found[3] or 0)
        return str(value - other if found[2] == "-" else value + other)

    return _INDEX.sub(number, text)
