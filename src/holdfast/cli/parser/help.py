"""`--help` of one verb and of all, made from the rows of the verbs."""

from __future__ import annotations

import sys

from holdfast.cli.parser.verbs import CONTENTS, GLOBAL_OPTIONS, Option, Verb, every_verb, verb_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.call import Call


def show_help(verb: Verb | None) -> int:
    sys.stdout.write(help_of(verb) if verb else overview())
    return 0


@Verb(
    "help",
    "Show help, of a verb or of all",
    operands="[VERB]",
    most=1,
    options=(Option("--man", "print the manual page, for `man -l -`"),),
    examples=(
        ("holdfast help logs", "options and examples of a verb"),
        ("holdfast help --man logs | man -l -", "the same as a manual page"),
    ),
)
def help_verb(call: Call) -> int:
    from holdfast.cli.parser.arguments import parse

    is_page = bool(call.options.get("man"))
    if not call.operands:
        return _show_page(None) if is_page else show_help(None)
    name = call.operands[0]
    # An unknown name is refused by the parser, with a suggestion.
    verb = verb_of(name) or parse([name, "--help"]).verb
    return _show_page(verb) if is_page else show_help(verb)


def _show_page(verb: Verb | None) -> int:
    from holdfast.cli.parser.man import overview_page, page_of

    sys.stdout.write(page_of(verb) if verb else overview_page())
    return 0


def overview() -> str:
    lines = [
        "Holdfast is a process supervisor that survives its own crashes.",
        "",
        "usage: holdfast [OPTIONS] VERB …    (holdfast VERB --help tells more)",
    ]
    verbs = {verb.name: verb for verb in every_verb()}
    for title, names in CONTENTS.items():
        lines += ["", title]
        lines += [f"  {name:<15} {verbs[name].summary}" for name in names]
    lines += ["", "Options of every verb", *_option_lines(GLOBAL_OPTIONS)]
    lines += [
        "",
        "Bare `holdfast` in a folder with a configuration is `holdfast up`.",
        "Begin with: holdfast init, or holdfast run -- COMMAND",
    ]
    return "\n".join(lines) + "\n"


def help_of(verb: Verb) -> str:
    lines = [verb.summary + ".", "", f"usage: {usage_of(verb)}"]
    if verb.about:
        lines += ["", verb.about]
    if verb.options:
        lines += ["", "Options", *_option_lines(verb.options)]
    lines += ["", "Examples"]
    width = max(len(command) for command, _ in verb.examples)
    if width <= 50:
        lines += [f"  {command:<{width}}  {why}" for command, why in verb.examples]
    else:
        for command, why in verb.examples:
            lines += [f"  {command}", f"      {why}"]
    own_flags = {flag for option in verb.options for flag in option.flags}
    others = [option for option in GLOBAL_OPTIONS if not own_flags & set(option.flags)]
    lines += ["", "Options of every verb", *_option_lines(others)]
    return "\n".join(lines) + "\n"


def usage_of(verb: Verb) -> str:
    options = " [OPTIONS]" if verb.options else ""
    operands = f" {verb.operands}" if verb.operands else ""
    return f"holdfast {verb.name}{options}{operands}"


def _option_lines(options: tuple[Option, ...] | list[Option]) -> list[str]:
    shown = [(flags_of(option), option.help) for option in options]
    width = min(28, max((len(flags) for flags, _ in shown), default=0))
    lines: list[str] = []
    for flags, text in shown:
        if len(flags) > width:
            lines += [f"  {flags}", f"  {'':<{width}}  {text}"]
        else:
            lines.append(f"  {flags:<{width}}  {text}")
    return lines


def flags_of(option: Option) -> str:
    names = ", ".join(option.flags)
    return f"{names} {option.metavar}" if option.takes_value else names
