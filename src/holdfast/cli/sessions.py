"""`holdfast sessions`: the sessions of assistants, and what runs for them."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADS = ("SESSION", "CLIENT", "SINCE", "ENDS", "FATE", "RUNS FOR IT")


@Verb(
    "sessions",
    "List connected assistants, and what they started",
    operands="[close SESSION]",
    most=2,
    options=(
        Option(
            "--fate",
            "with close: what becomes of what it started",
            choices=("stop", "keep", "hand_over"),
        ),
    ),
    commands=("list_sessions", "close_session"),
    about=(
        "What an assistant starts belongs to its session. When the session ends, each of\n"
        "these services is stopped, kept or handed over to you, as its `on_session_end` or\n"
        "else the session says."
    ),
    examples=(
        ("holdfast sessions", "who is here"),
        ("holdfast sessions close session-… --fate hand_over", "send it away, keep its work"),
    ),
)
def sessions(call: Call) -> int:
    if not call.operands:
        return _list(call)
    if call.operands[0] != "close" or len(call.operands) != 2:
        raise UsageError("only `close SESSION` is understood", "holdfast sessions --help")
    fields: dict[str, Any] = {"session": call.operands[1]}
    if "fate" in call.options:
        fields["fate"] = call.options["fate"]
    result = call.ask("close_session", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    call.say(f"{result['session']} is over")
    for fate in ("stopped", "kept", "handed_over", "shared"):
        if result.get(fate):
            call.say(f"{fate.replace('_', ' ')}: {', '.join(result[fate])}")
    return 0


def _list(call: Call) -> int:
    result = call.ask("list_sessions")
    if call.is_json:
        call.emit(result)
        return 0
    if not result["sessions"]:
        call.say("no sessions: no assistant is here")
        return 0
    rows = [
        (
            session["session"],
            session["client"],
            durations.show_time(session["opened_at"]),
            "-" if session["held"] else f"in {durations.show(session['expires_in'])}",
            session["fate"],
            ", ".join(session["owns"]) or "-",
        )
        for session in result["sessions"]
    ]
    call.say_table(HEADS, rows)
    return 0
