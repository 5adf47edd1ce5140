"""Manual pages in roff, made from the rows of the verbs, as the help is."""

from __future__ import annotations

from holdfast import __version__
from holdfast.cli.parser.help import flags_of, usage_of
from holdfast.cli.parser.verbs import CONTENTS, GLOBAL_OPTIONS, Option, Verb, every_verb


def page_of(verb: Verb) -> str:
    """Return the page holdfast-VERB(1)."""
    own = {flag for option in verb.options for flag in option.flags}
    others = [option for option in GLOBAL_OPTIONS if not own & set(option.flags)]
    lines = [
        _title(f"holdfast-{verb.name}"),
        *(".SH NAME", f"{_plain(f'holdfast-{verb.name}')} \\- {_plain(verb.summary)}"),
        *(".SH SYNOPSIS", f".B {_plain(usage_of(verb))}"),
        *(".SH DESCRIPTION", *_paragraphs(f"{verb.summary}.\n\n{verb.about}")),
    ]
    if verb.options:
        lines += [".SH OPTIONS", *_options(verb.options)]
    lines.append(".SH EXAMPLES")
    for command, why in verb.examples:
        lines += [".TP", f".B {_plain(command)}", _plain(why)]
    lines += [".SH OPTIONS OF EVERY VERB", *_options(others)]
    lines += [".SH SEE ALSO", ".BR holdfast (1)"]
    return "\n".join(lines) + "\n"


def overview_page() -> str:
    """Return the page holdfast(1)."""
    verbs = {verb.name: verb for verb in every_verb()}
    lines = [
        _title("holdfast"),
        *(".SH NAME", "holdfast \\- a process supervisor that survives its own crashes"),
        *(".SH SYNOPSIS", ".B holdfast [OPTIONS] VERB …"),
        ".SH DESCRIPTION",
        "Bare holdfast in a folder with a configuration is holdfast up.",
        "Begin with holdfast init, or holdfast run \\-\\- COMMAND.",
    ]
    for title, names in CONTENTS.items():
        lines.append(f".SS {_plain(title)}")
        for name in names:
            lines += [".TP", f".BR holdfast\\-{_plain(name)} (1)", _plain(verbs[name].summary)]
    lines += [".SH OPTIONS", *_options(GLOBAL_OPTIONS)]
    lines += [".SH FILES", ".TP", ".I holdfast.yaml", "The configuration of a folder."]
    return "\n".join(lines) + "\n"


def _title(name: str) -> str:
    return f'.TH {_plain(name.upper())} 1 "" "holdfast {__version__}" "Holdfast"'


def _options(options: tuple[Option, ...] | list[Option]) -> list[str]:
    lines: list[str] = []
    for option in options:
        lines += [".TP", f".B {_plain(flags_of(option))}", _plain(option.help)]
    return lines


def _paragraphs(text: str) -> list[str]:
    lines = (line.strip() for line in text.strip().splitlines())
    return [_plain(line) if line else ".PP" for line in lines]


def _plain(text: str) -> str:
    """Return a text in which roff finds nothing of its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
