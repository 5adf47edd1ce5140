"""`holdfast agent`: AI backends and their sessions, for a person at a terminal."""

from __future__ import annotations

import sys

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

BACKEND_HEADS = ("BACKEND", "KIND", "MODE", "MODEL", "HEALTH")
SESSION_HEADS = ("SESSION", "BACKEND", "STATE", "CONDITION", "TURNS", "TOKENS", "FOLDER", "PROBLEM")
DOCTOR_HEADS = ("BACKEND", "VERSION", "LOGIN", "HEALTH", "MODELS", "CAN", "PROBLEM", "CURE")
QUIET = ("usage", "session.bound", "run.started", "turn.started", "thought.delta", "raw", "plan")
"""Events that are not shown to a person who follows; `transcript` has them."""
_MISSING = "-"
_LEAVE = ("/quit", "/exit")


@Verb(
    "agent",
    "Run AI agents: start, prompt, chat, interrupt, resume",
    operands="ls|doctor|start|prompt|chat|interrupt|stop|restart|resume|fork|transcript|rm …",
    most=None,
    options=(
        Option("-f --follow", "with prompt, transcript: show what comes, to the end of the turn"),
        Option("--dir", "with start: work in this folder", "DIR"),
        Option("--name", "with start, fork: the name of its service", "NAME"),
        Option("--resume", "with start: go on with this session", "SESSION"),
        Option("--another", "with start: a further session, although one is there"),
        Option("--worktree", "with start: work in a git worktree of its own"),
        Option("--markdown", "with transcript: as a text for people"),
        Option("--after", "with transcript: only events after this number", "N", "number"),
    ),
    commands=(
        *("list_backends", "list_agents", "start_or_attach", "prompt", "transcript"),
        *("interrupt", "stop_agent", "restart_agent", "resume_agent", "fork_agent", "forget_agent"),
        *("status", "send_input", "resize", "watch"),
    ),
    about=(
        "`backends:` in holdfast.yaml names AI agents at the command line and model servers.\n"
        "A session is one conversation: it goes on in a new process after a crash, and its\n"
        "permission requests wait in `holdfast approvals`. `doctor` looks what is installed and\n"
        "logged in, and tells the command that helps. A session is named by its id or by its\n"
        "service."
    ),
    examples=(
        ("holdfast agent doctor", "what is installed, and what is wrong"),
        ("holdfast agent start claude --dir api", "begin to work in a folder"),
        ("holdfast agent prompt claude-1 'fix the tests' --follow", "see what it does"),
        ("holdfast agent chat claude-1", "talk to it"),
        ("holdfast agent transcript claude-1 --markdown > talk.md", "keep the conversation"),
    ),
)
def agent(call: Call) -> int:
    if not call.operands:
        return ls(call)
    action = ACTIONS.get(call.operands[0])
    if action is None:
        known = ", ".join(ACTIONS)
        raise UsageError(f'agent has no action "{call.operands[0]}"', f"one of: {known}")
    return action(call)


def ls(call: Call) -> int:
    """List the backends and their sessions."""
    names = call.operands[1:]
    found = call.ask("list_backends", backends=names)
    agents = call.ask("list_agents", backends=names)["agents"]
    if call.is_json:
        call.emit({**found, "agents": agents})
        return 0
    if not found["backends"] and not agents:
        call.say("no backends are configured; `backends:` in holdfast.yaml names them")
        return 0
    rows = [
        (
            one["name"],
            one["kind"],
            one["mode"],
            one["model"] or _MISSING,
            one["health"] or _MISSING,
        )
        for one in found["backends"]
    ]
    call.say_table(BACKEND_HEADS, rows)
    if agents:
        call.say()
        call.say_table(SESSION_HEADS, [_session_row(one) for one in agents], state_column=2)
    return 0


def _session_row(one: dict[str, Any]) -> tuple[str, ...]:
    tokens = one["input_tokens"] + one["output_tokens"]
    return (
        one["service"],
        one["backend"],
        one["state"],
        one["condition"],
        str(one["turn"]),
        str(tokens) if tokens else _MISSING,
        one["folder"],
        _problem(one) or _MISSING,
    )


def _problem(one: dict[str, Any]) -> str:
    if one["approvals"]:
        return f"waits: holdfast approve {one['approvals'][0]}"
    parts = [one["sentence"], one["fix"] and f"cure: {one['fix']}"]
    return "; ".join(part for part in parts if part)


def doctor(call: Call) -> int:
    """Look what is installed and logged in; exits 1 if a backend cannot be used."""
    found = call.ask("list_backends", backends=call.operands[1:], probe=True)
    is_well = not any(one["failure"] for one in found["backends"])
    if call.is_json:
        call.emit(found)
        return 0 if is_well else 1
    rows = [
        (
            one["name"],
            one["version"] or _MISSING,
            one["login"],
            one["health"] or _MISSING,
            ", ".join(one["models"]) or _MISSING,
            ", ".join(one["capabilities"]) or _MISSING,
            one["sentence"] or _MISSING,
            one["fix"] or _MISSING,
        )
        for one in found["backends"]
    ]
    call.say_table(DOCTOR_HEADS, rows)
    return 0 if is_well else 1


def start(call: Call) -> int:
    """Start a session, or tell the one that is there."""
    fields: dict[str, Any] = {}
    if "resume" in call.options:
        fields["session"] = call.options["resume"]
    else:
        fields["backend"] = _one(call, "which backend?", "`holdfast agent ls` lists them")
    if "dir" in call.options:
        fields["working_dir"] = call.path(call.options["dir"])
    if "name" in call.options:
        fields["service"] = call.options["name"]
    for option, field in (("another", "new"), ("worktree", "worktree")):
        if call.options.get(option):
            fields[field] = True
    return _tell(call, call.ask("start_or_attach", **fields))


def _tell(call: Call, answer: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(answer)
        return 0
    one = answer["agent"]
    call.say(f"{one['service']}: {answer['outcome']} ({one['condition']}) {one['session']}")
    if problem := _problem(one):
        call.say(f"  {problem}")
    return 0


def _one(call: Call, message: str, hint: str) -> str:
    if len(call.operands) != 2:
        raise UsageError(message, hint)
    return call.operands[1]


def _session(call: Call) -> str:
    return _one(call, "which session?", "`holdfast agent ls` lists them")


def of_session(command: str) -> Callable[[Call], int]:
    """Return the action that asks a command about a session."""

    def act(call: Call) -> int:
        fields = {"service": call.options["name"]} if "name" in call.options else {}
        return _tell(call, call.ask(command, session=_session(call), **fields))

    return act


def prompt(call: Call) -> int:
    """Give a prompt; with --follow show the turn. The exit code is 1 if the turn failed."""
    if len(call.operands) < 2:
        raise UsageError("which session?", "holdfast agent prompt SESSION 'TEXT'")
    session, text = call.operands[1], " ".join(call.operands[2:])
    if text in ("", "-"):
        text = sys.stdin.read()
    given = call.ask("prompt", session=session, text=text)
    if not call.options.get("follow"):
        if call.is_json:
            call.emit(given)
        else:
            waits = " (it waits for its turn)" if given["is_queued"] else ""
            call.say(f"turn {given['turn']}{waits}; holdfast agent transcript {session} --follow")
        return 0
    return _show(call, session, given["after"], given["turn"])


def forget(call: Call) -> int:
    """Forget a session that does not run."""
    answer = call.ask("forget_agent", session=_session(call))
    if call.is_json:
        call.emit(answer)
    else:
        call.say(answer["message"])
    return 0


def _show(call: Call, session: str, after: int, turn: int) -> int:
    """Show the events of a turn to its end."""
    reason = "failed"
    is_inside = False
    for event in _follow(call, session, after, turn):
        is_inside = is_inside or event.get("turn") == turn or event["kind"] == "run.ended"
        if not is_inside:
            continue
        if event["kind"] == "turn.finished":
            reason = event["reason"]
        if call.is_json:
            call.emit_line(event)
        else:
            _print(call, event)
    return 0 if reason == "done" else 1


def _follow(call: Call, session: str, after: int, turn: int | None) -> Iterator[dict[str, Any]]:
    """Yield events; goes on where it was when the supervisor is replaced."""
    from holdfast.cli.terminal.follow import connect_again
    from holdfast.client.connection import ConnectionLost

    while True:
        fields = {"session": session, "after": after, "follow": True}
        try:
            for event in call.connect().stream(
                "transcript", **fields, **({"turn": turn} if turn is not None else {})
            ):
                after = event["seq"]
                yield event
        except ConnectionLost:
            connect_again(call)
            continue
        return


def _print(call: Call, event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind == "text.delta":
        call.write(event["text"])
        sys.stdout.flush()
        return
    if kind in QUIET:
        return
    line = _line_of(event)
    if line:
        call.say(f"\n{line}")


def _line_of(event: dict[str, Any]) -> str:
    match event["kind"]:
        case "tool.started":
            given = event.get("input") or {}
            on = next((str(v) for v in given.values() if isinstance(v, str)), "")
            return f"· {event.get('tool')} {event.get('title') or on}"[:200]
        case "tool.finished":
            return f"· failed: {event.get('text', '')}"[:200] if event.get("is_error") else ""
        case "approval.requested":
            return f"· it waits for permission: holdfast approve {event.get('approval')}"
        case "approval.settled":
            word = "allowed" if event.get("is_approved") else "refused"
            return f"· {word} {event.get('reason') or ''}"
        case "retrying":
            return f"· it does not reach its model, and tries again: {event.get('cause')}"
        case "warning":
            return f"· {event.get('text')}"
        case "run.ended":
            return f"· its process ended: {event.get('sentence') or 'it was stopped'}"
        case "turn.finished":
            is_done = event["reason"] == "done"
            return "" if is_done else f"· {event['reason']}: {event.get('text') or ''}"
        case _:
            return ""


def chat(call: Call) -> int:
    """Talk to a session, line by line; one in a terminal is attached to."""
    from holdfast.vocabulary.errors import HoldfastError

    session = _session(call)
    for one in call.ask("list_agents")["agents"]:
        if session in (one["session"], one["service"]) and one["mode"] == "pty":
            from holdfast.cli.attach import attach_to

            return attach_to(call, one["service"])
    call.note("an empty line does nothing, /interrupt ends a turn, /quit leaves; it goes on")
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return 0
        if text in _LEAVE:
            return 0
        if not text:
            continue
        try:
            if text == "/interrupt":
                call.ask("interrupt", session=session)
                continue
            given = call.ask("prompt", session=session, text=text)
            _show(call, session, given["after"], given["turn"])
        except KeyboardInterrupt:
            call.close()
            call.ask("interrupt", session=session)
        except HoldfastError as error:
            call.note(str(error))
        call.say()


def transcript(call: Call) -> int:
    """Show what was said and done, as events or as text."""
    session, after = _session(call), int(call.options.get("after") or 0)
    if call.options.get("markdown"):
        call.write(call.ask("transcript", session=session, format="markdown")["markdown"])
        return 0
    while True:
        found = call.ask("transcript", session=session, after=after)
        after = found["after"]
        for event in found["events"]:
            call.emit_line(event) if call.is_json else _print(call, event)
        if found["is_whole"]:
            break
    if call.options.get("follow"):
        for event in _follow(call, session, after, None):
            call.emit_line(event) if call.is_json else _print(call, event)
    elif not call.is_json:
        call.say()
    return 0


ACTIONS: dict[str, Callable[[Call], int]] = {
    "ls": ls,
    "doctor": doctor,
    "start": start,
    "prompt": prompt,
    "chat": chat,
    "interrupt": of_session("interrupt"),
    "stop": of_session("stop_agent"),
    "restart": of_session("restart_agent"),
    "resume": of_session("resume_agent"),
    "fork": of_session("fork_agent"),
    "transcript": transcript,
    "rm": forget,
}
