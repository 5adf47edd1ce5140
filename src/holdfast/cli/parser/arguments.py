"""Reads a command line by the rows of the verbs. Options may stand before or after the verb.

Owns the usage errors of the line and their suggestions. Executes nothing.
"""

from __future__ import annotations

from holdfast.cli.parser.verbs import GLOBAL_OPTIONS, NAMES, Option, Verb, every_verb, verb_of
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ParsedArguments:
    """A command line as it was read. `verb` is None for a bare `holdfast`."""

    __slots__ = ("begins_with_dashes", "dashes_at", "operands", "options", "verb")

    def __init__(
        self,
        verb: Verb | None,
        options: dict[str, Any],
        operands: list[str],
        *,
        begins_with_dashes: bool = False,
        dashes_at: int | None = None,
    ) -> None:
        self.verb = verb
        self.options = options
        self.operands = operands
        self.begins_with_dashes = begins_with_dashes
        """Whether `--` stands before the first operand: `exec -- make`, not `exec web -- make`."""
        self.dashes_at = dashes_at
        """The number of operands before `--`; None: there is none."""


def parse(words: list[str]) -> ParsedArguments:
    """Read the words; raises UsageError that names the mistake and the next step."""
    place = place_of_verb(words)
    if place is None:
        return _read(None, words, [])
    verb = verb_of(words[place])
    if verb is None:
        raise _unknown_verb(words[place])
    arguments = _read(verb, words[:place], words[place + 1 :])
    if not arguments.options.get("help"):
        _check_count(verb, arguments.operands)
    return arguments


def place_of_verb(words: list[str]) -> int | None:
    """The first word that is neither an option nor the value of one."""
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--" or not word.startswith("-") or word == "-":
            return place if word != "--" else None
        if needs_next_word(word):
            place += 1
        place += 1
    return None


def needs_next_word(word: str, verb: Verb | None = None) -> bool:
    """Return whether this word of options takes the next word as its value."""
    if word.startswith("--"):
        option = _any_option(word, verb)
        return option is not None and option.takes_value
    for at, letter in enumerate(word[1:], 1):
        option = _any_option(f"-{letter}", verb)
        if option is not None and option.takes_value:
            return at == len(word) - 1
    return False


def _any_option(flag: str, verb: Verb | None) -> Option | None:
    """An option of this verb or of any. A flag takes a value with every verb or with none, so the
    first that is found will do, and other families are imported only for a foreign one."""
    for option in (*GLOBAL_OPTIONS, *(verb.options if verb is not None else ())):
        if flag in option.flags:
            return option
    for other in every_verb():
        for option in other.options:
            if flag in option.flags:
                return option
    return None


def _read(verb: Verb | None, before: list[str], after: list[str]) -> ParsedArguments:
    known = {flag: option for option in GLOBAL_OPTIONS for flag in option.flags}
    if verb is not None:
        known.update((flag, option) for option in verb.options for flag in option.flags)
    options: dict[str, Any] = {}
    operands: list[str] = []
    words = [*before, *after]
    at, begins_with_dashes = 0, False
    dashes_at: int | None = None
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            begins_with_dashes, dashes_at = not operands, len(operands)
            operands.extend(words[at:])
            break
        if word == "-" or not word.startswith("-"):
            operands.append(word)
            if verb is not None and verb.is_command_line:
                operands.extend(words[at:])
                break
            continue
        for flag, attached in _flags_in(word, known):
            option = known.get(flag)
            if option is None:
                raise _unknown_option(flag, verb, known)
            if not option.takes_value:
                if attached is not None:
                    raise UsageError(f"{flag} takes no value", _help_hint(verb))
                options[option.name] = True
            elif option.kind == "rest":
                options[option.name] = [*([attached] if attached else []), *words[at:]]
                at = len(words)
            else:
                if attached is None:
                    if at >= len(words):
                        raise UsageError(f"{flag} needs {option.metavar}", _help_hint(verb))
                    attached = words[at]
                    at += 1
                _store(options, option, flag, attached, verb)
    return ParsedArguments(
        verb, options, operands, begins_with_dashes=begins_with_dashes, dashes_at=dashes_at
    )


def _flags_in(word: str, known: dict[str, Option]) -> list[tuple[str, str | None]]:
    """`--tail=5` → one flag with a value; `-fn5` → two, the second with a value."""
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
        return [(flag, value if equals else None)]
    found: list[tuple[str, str | None]] = []
    for at, letter in enumerate(word[1:], 1):
        flag = f"-{letter}"
        option = known.get(flag)
        if option is not None and option.takes_value:
            found.append((flag, word[at + 1 :].removeprefix("=") or None))
            break
        found.append((flag, None))
    return found


def _store(
    options: dict[str, Any], option: Option, flag: str, text: str, verb: Verb | None
) -> None:
    from holdfast.cli.terminal import durations

    if option.choices:
        if text not in option.choices:
            raise UsageError(f"{flag} {text}: use {', '.join(option.choices)}", _help_hint(verb))
        options[option.name] = text
        return
    try:
        if option.kind == "number":
            options[option.name] = durations.parse_count(text)
        elif option.kind == "duration":
            options[option.name] = durations.parse(text)
        elif option.kind == "place":
            options[option.name] = durations.parse_place(text)
        elif option.kind == "when":
            options[option.name] = durations.parse_when(text)
        elif option.kind == "pairs":
            name, equals, value = text.partition("=")
            if not name or not equals:
                raise ValueError("use NAME=VALUE")
            options.setdefault(option.name, {})[name] = value
        elif option.kind == "several":
            options.setdefault(option.name, []).append(text)
        else:
            options[option.name] = text
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}", _help_hint(verb)) from None


def _check_count(verb: Verb, operands: list[str]) -> None:
    if len(operands) < verb.least:
        raise UsageError(
            f"`holdfast {verb.name}` needs {verb.operands}",
            f"for example: {verb.examples[0][0]}",
        )
    if verb.most is not None and len(operands) > verb.most:
        extra = " ".join(operands[verb.most :])
        raise UsageError(f"`holdfast {verb.name}`: unexpected {extra}", _help_hint(verb))


def _unknown_verb(word: str) -> UsageError:
    from holdfast.vocabulary.names import closest

    guess = closest(word, list(NAMES))
    if guess:
        return UsageError(f'no verb "{word}"; did you mean "{guess}"?', f"holdfast {guess} --help")
    return UsageError(
        f'no verb "{word}"', f"`holdfast help` lists them; to run it: holdfast run -- {word}"
    )


def _unknown_option(flag: str, verb: Verb | None, known: dict[str, Option]) -> UsageError:
    from holdfast.vocabulary.names import closest

    names = [option[2:] for option in known if option.startswith("--")]
    guess = closest(flag[2:], names) if flag.startswith("--") else None
    named = f"`holdfast {verb.name}` has no option {flag}" if verb else f"no option {flag}"
    return UsageError(named + (f"; did you mean --{guess}?" if guess else ""), _help_hint(verb))


def _help_hint(verb: Verb | None) -> str:
    return f"holdfast {verb.name} --help" if verb else "holdfast help"
