"""Shell completion: a small script for each shell, which asks `holdfast __complete WORD…`.

Verbs and options come from the rows of the verbs. Names of services come from the daemon if it
answers at once, else from the log files. It never waits and never fails loudly.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.parser.verbs import GLOBAL_OPTIONS, Option, Verb, every_verb, verb_of
from holdfast.vocabulary.errors import HoldfastError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.call import Call

ANSWER_SECONDS = 0.3

SCRIPTS = {
    "bash": """\
_holdfast() {
    # bash cuts words at = : and @, too, and takes only what stands behind the cut (or at the @).
    local breaks=${COMP_WORDBREAKS//[^=:@]/} line=${COMP_LINE:0:COMP_POINT}
    local blanks cut last part word
    local -a words=()
    line=${line#*"${COMP_WORDS[0]}"}
    for part in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        blanks=${line%%[![:blank:]]*}
        line=${line#"$blanks"}
        if [[ $blanks ]]; then
            words+=("$last")
            last=
        fi
        last+=${line:0:${#part}}
        line=${line:${#part}}
    done
    [[ $breaks ]] && cut=${last%"${last##*[$breaks]}"} && cut=${cut%@}
    COMPREPLY=()
    while IFS=$'\\t' read -r word _; do
        COMPREPLY+=("${word#"$cut"}")
    done < <(holdfast __complete "${words[@]:1}" "$last" 2>/dev/null)
    [[ ${COMPREPLY[0]-} == *[=:] ]] && compopt -o nospace 2>/dev/null
}
complete -o default -F _holdfast holdfast
""",
    "zsh": """\
#compdef holdfast
_holdfast() {
    local -a found unfinished
    local word about
    while IFS=$'\\t' read -r word about; do
        about="${word//:/\\\\:}${about:+:$about}"
        if [[ $word == *[=:] ]]; then
            unfinished+=("$about")
        else
            found+=("$about")
        fi
    done < <(holdfast __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found + $#unfinished )); then
        _describe holdfast found -- unfinished -S ''
    else
        compset -P '--*='
        _files
    fi
}
compdef _holdfast holdfast
""",
    "fish": """\
function __holdfast_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc) $current
    set -l found (holdfast __complete $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        set -l option (string match -r '^--[^=]+=' -- $current)
        for path in (__fish_complete_path (string replace -- "$option" '' "$current"))
            printf '%s%s\\n' "$option" $path
        end
    end
end
complete -c holdfast -f -a '(__holdfast_complete)'
""",
}

SIGNALS = ("HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM", "CONT", "STOP", "WINCH")


@Verb(
    "completion",
    "Print a completion script for your shell",
    operands="bash|zsh|fish",
    least=1,
    most=1,
    examples=(
        ('eval "$(holdfast completion bash)"', "in ~/.bashrc"),
        ('eval "$(holdfast completion zsh)"', "in ~/.zshrc, after compinit"),
        ("holdfast completion fish | source", "in ~/.config/fish/config.fish"),
    ),
)
def completion(call: Call) -> int:
    shell = call.operands[0]
    script = SCRIPTS.get(shell)
    if script is None:
        raise UsageError(f'no completion for "{shell}"', "use bash, zsh or fish")
    if call.is_json:
        import json

        script = json.dumps({"shell": shell, "script": script}) + "\n"
    sys.stdout.write(script)
    return 0


def complete(words: list[str]) -> int:
    """Print what may stand at the cursor, one word a line, with its meaning after a tab."""
    *before, last = words or [""]
    for word, about in candidates(before, last):
        if word.startswith(last):
            sys.stdout.write(f"{word}\t{about}\n" if about else f"{word}\n")
    return 0


def candidates(before: list[str], last: str) -> list[tuple[str, str]]:
    from holdfast.cli.parser.arguments import needs_next_word, place_of_verb

    place = place_of_verb(before)
    verb = verb_of(before[place]) if place is not None else None
    if before and before[-1].startswith("-") and needs_next_word(before[-1], verb):
        return _values(before[-1], verb)
    if "--" in before:
        return []
    flag, equals, _ = last.partition("=")
    if equals and flag.startswith("--"):
        return [(f"{flag}={value}", about) for value, about in _values(flag, verb)]
    options = [*(verb.options if verb else ()), *GLOBAL_OPTIONS]
    if last.startswith("-"):
        # Where a verb has its own option of a name, the global one is hidden.
        shown = {option.flags[-1]: option.help for option in reversed(options)}
        return list(reversed(shown.items()))
    if place is None:
        return [(known.name, known.summary) for known in every_verb(last)]
    if verb is None:
        return []
    return _operands(verb, before, place)


def _values(flag: str, verb: Verb | None) -> list[tuple[str, str]]:
    known: list[Option] = [*(verb.options if verb else ()), *GLOBAL_OPTIONS]
    for option in known:
        if flag in option.flags:
            if option.name == "for":
                states = [(state, "") for state in ("running", "ready", "healthy", "exited")]
                others = [("log:", "a line that matches"), ("silent:", "no output for so long")]
                return states + others
            if option.name == "host":
                return _contexts()
            return [(choice, "") for choice in option.choices]
    return []


def _contexts() -> list[tuple[str, str]]:
    from holdfast.cli.remote import read_contexts

    try:
        hosts = read_contexts(os.environ).hosts
    except HoldfastError:
        hosts = {}
    return [("local", "this machine"), *hosts.items()]


def _operands(verb: Verb, before: list[str], place: int) -> list[tuple[str, str]]:
    has_operand = any(not word.startswith("-") for word in before[place + 1 :])
    if not has_operand and (words := _first_words(verb)):
        return [(word, "") for word in words]
    if before[place:] == ["mcp", "config"]:
        from holdfast.system.assistant_programs import PROGRAMS

        return [(name, "") for name in PROGRAMS]
    if verb.name == "context" and before[-1] in ("use", "rm"):
        return _contexts()
    if verb.name == "help":
        return [(known.name, known.summary) for known in every_verb()]
    if verb.name == "signal" and not has_operand:
        return [(name, "") for name in SIGNALS]
    if verb.name == "scale":
        names = {name.partition("@")[0]: "" for name, _ in service_names(before) if "@" in name}
        return [(f"{name}=", "") for name in names]
    if "SERVICE" in verb.operands:
        return service_names(before)
    return []


def _first_words(verb: Verb) -> list[str]:
    """Words in lower case among its operands are typed as they stand: `[run NAME|ls]`."""
    words = [part.strip("[ ]").partition(" ")[0] for part in verb.operands.split("|")]
    return [word for word in words if word.isalpha() and word.islower()]


def service_names(before: list[str]) -> list[tuple[str, str]]:
    """Names of services with their states; names alone if the daemon does not answer at once."""
    from holdfast.cli.call import Call
    from holdfast.cli.parser.arguments import ParsedArguments, parse
    from holdfast.client.connection import Connection

    try:
        options = parse([*before, "--help"]).options
    except HoldfastError:
        options = {}
    call = Call(ParsedArguments(None, options, []), os.environ)
    try:
        call.use(Connection(call.places.line_socket, connect_seconds=ANSWER_SECONDS))
        connection = call.connect()
        answer = connection.answer(connection.send("status"), ANSWER_SECONDS)
        names = [(name, service["status"]) for name, service in answer["services"].items()]
        return names + [(name, "") for name in answer["supervisor"].get("selectors") or ()]
    except (HoldfastError, TimeoutError, OSError, KeyError):
        pass
    finally:
        call.close()
    from holdfast.logbook import segments

    return [(name, "") for name in sorted(segments.list_all(call.places.logs))]
