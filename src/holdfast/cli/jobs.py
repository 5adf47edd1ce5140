"""The verb about jobs: add, look, follow, wait, cancel, retry, and the queue itself."""

from __future__ import annotations

import os
import sys

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.run import exit_code
from holdfast.cli.terminal import durations
from holdfast.cli.terminal.follow import connect_again
from holdfast.cli.terminal.screen import cut
from holdfast.cli.terminal.signals import interruptible
from holdfast.client.connection import ConnectionLost, error_from
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

OVER = ("completed", "failed", "cancelled")
HEADS = ("JOB", "STATE", "TRIES", "SINCE", "COMMAND", "NOTE")
_BAR = 24
_CLEAR = "\r\x1b[K"
_ACTIONS = "add|ls|show|logs|wait|cancel|retry|pause|resume|stats|report"


@Verb(
    "job",
    "Queue commands: once, later, again if they fail, or again and again",
    operands=f"{_ACTIONS} [NAME|JOB] [ARG…]",
    least=1,
    most=None,
    options=(
        Option("--delay", "not before this time has passed", "TIME", "duration"),
        Option("--priority", "lower goes first; 0 is the usual", "N"),
        Option("--attempts", "how often it is tried; 3 by default", "N", "number"),
        Option("--timeout", "how long an attempt, or the waiting, may take", "TIME", "duration"),
        Option("--unique", "add nothing while a job with this text is not over", "TEXT"),
        Option("--after", "only when this job is completed; may be repeated", "JOB", "several"),
        Option("--repeat", "add it at each of these times (cron)", "CRON"),
        Option("--every", "add it again and again", "TIME", "duration"),
        Option("-e --env", "add to its environment; stored with the job", "N=V", "pairs"),
        Option("--kill", "instead of a command: a signal to the process of a service", "SERVICE"),
        Option("--signal", "the signal for --kill; SIGTERM by default", "NAME"),
        Option("--state", "ls: only these states, with commas", "STATES"),
        Option("-n --tail", "logs: so many of the last lines", "N", "number"),
        Option("-f --follow", "go on until it is over, and exit as it did"),
        Option("--progress", "report: how far it is, 0 to 100 or any JSON", "N"),
        Option("--result", "report: what came out, JSON or text", "JSON"),
    ),
    commands=(
        *("add_job", "list_jobs", "show_job", "job_logs", "wait_job", "cancel_job", "retry_job"),
        *("pause_jobs", "resume_jobs", "job_stats", "report_job"),
    ),
    about=(
        "`job add NAME` adds a job of `jobs:` in the configuration, with further arguments if\n"
        "it takes some; `job add -- COMMAND` any command. At most `queue: {concurrency: 4}` run\n"
        "at once. A job that fails is tried again after 2 s, then 4 s; one that has failed for\n"
        "good is kept with its reason, for `job retry`. `job report` is for the job itself."
    ),
    examples=(
        ("holdfast job add render -- scene.blend", "a job of the configuration"),
        ("holdfast job add --delay 10m -- ./cleanup.sh", "a command, in ten minutes"),
        ('holdfast job add backup --repeat "0 3 * * *"', "every night at three"),
        ("holdfast job ls --state failed", "what failed, and why"),
        ("holdfast job logs -f JOB", "what it prints, until it is over"),
        ("holdfast job report --progress 40", "in the job: how far it is"),
    ),
)
def job(call: Call) -> int:
    action, *words = call.operands
    if action in ("ls", "list"):
        return _list(call)
    whole: dict[str, Callable[[Call], int]] = {
        "pause": _pause, "resume": _resume, "stats": _stats, "report": _report,
    }  # fmt: skip
    if action in whole:
        if words:
            raise UsageError(f"job {action} takes no more words", "holdfast job --help")
        return whole[action](call)
    if action == "add":
        return _add(call, words)
    about: dict[str, Callable[[Call, str], int]] = {
        "show": _show, "logs": _logs, "wait": _wait, "cancel": _cancel, "retry": _retry,
    }  # fmt: skip
    if action not in about:
        raise UsageError(
            f'"{action}" is none of {_ACTIONS.replace("|", ", ")}', "holdfast job --help"
        )
    if len(words) != 1:
        raise UsageError(f"job {action} needs one job", "`holdfast job ls` lists them")
    return about[action](call, words[0])


def _add(call: Call, words: list[str]) -> int:
    result = call.ask("add_job", **fields_of(call, words))
    added, repeat = result.get("job"), result.get("repeat")
    if added is not None and call.options.get("follow"):
        call.note(added["id"])
        return _follow_logs(call, added["id"])
    if call.is_json:
        call.emit(result)
    elif repeat is not None:
        call.say(f"{repeat['id']}: next {durations.show_time(repeat['next'])}")
    elif added is not None:
        note = "" if result["is_new"] else call.paint(f"  (already {added['state']})", "dim")
        call.say(f"{added['id']}{note}")
    return 0


def fields_of(call: Call, words: list[str]) -> dict[str, Any]:
    """The fields of `add_job` that the words and options of a command line give."""
    options = call.options
    fields: dict[str, Any] = {
        name: options[name]
        for name in ("delay", "attempts", "timeout", "unique", "after", "repeat", "every", "env")
        if name in options
    }
    if "priority" in options:
        try:
            fields["priority"] = int(options["priority"])
        except ValueError:
            raise UsageError(f"--priority {options['priority']}: use a number") from None
    if "kill" in options:
        if words:
            raise UsageError("--kill and a command are two jobs", "add one after the other")
        fields |= {"kind": "kill", "service": options["kill"]}
        if "signal" in options:
            fields["signal"] = options["signal"]
    elif not words:
        raise UsageError("there is nothing to add", "holdfast job add NAME, or -- COMMAND")
    elif call.dashes_at == len(call.operands) - len(words):
        fields |= {"argv": words, "working_dir": os.path.realpath(call.folder)}
    else:
        fields["template"] = words[0]
        if words[1:]:
            fields["argv"] = words[1:]
    return fields


def _list(call: Call) -> int:
    fields: dict[str, Any] = {}
    if "state" in call.options:
        fields["states"] = [word.strip() for word in call.options["state"].split(",")]
    result = call.ask("list_jobs", **fields)
    if call.is_json:
        call.emit(result)
        return 0
    if result["jobs"]:
        call.say_table(HEADS, [_row(one) for one in result["jobs"]], state_column=1)
    # A repetition has no state of a job: who asks for states wants none.
    repeats = [] if "states" in fields else result["repeats"]
    for repeat in repeats:
        moment = durations.show_time(repeat["next"])
        what = f"{repeat['schedule']}, next {moment}"
        call.say(f"{repeat['id']}  {what}  {call.paint(repeat['command'], 'dim')}")
    if not result["jobs"] and not repeats:
        call.say("no jobs")
    if result["is_paused"]:
        call.note("the queue is paused; `holdfast job resume` lets it go on")
    return 0


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    moment = one["ended_at"] if one["state"] in OVER else one["started_at"] or one["added_at"]
    note = one["reason"] or ""
    if one["state"] == "active" and one["progress"] is not None:
        note = _progress_text(one["progress"])
    if one["state"] == "delayed":
        note = f"at {durations.show_time(one['run_at'])}" + (f"; {note}" if note else "")
    tries = f"{one['attempts']}/{one['most_attempts']}"
    since = durations.show_time(moment)
    return (one["id"], one["state"], tries, since, one["command"], note)


def _show(call: Call, job_id: str) -> int:
    one = call.ask("show_job", job=job_id)["job"]
    if call.is_json:
        call.emit(one)
        return 0
    call.say(f"{one['id']}  {call.paint(one['state'], 'bold')}")
    facts = {
        "command": one["command"],
        "attempts": f"{one['attempts']} of {one['most_attempts']}",
        "priority": one["priority"] or None,
        "added": durations.show_time(one["added_at"]) + (f" by {one['by']}" if one["by"] else ""),
        "not before": one["run_at"] and durations.show_time(one["run_at"]),
        "started": one["started_at"] and durations.show_time(one["started_at"]),
        "ended": one["ended_at"] and durations.show_time(one["ended_at"]),
        "pid": one["pid"],
        "progress": None if one["progress"] is None else _progress_text(one["progress"]),
        "result": None if one["result"] is None else _json(one["result"]),
        "after": ", ".join(one["after"]) or None,
        "exit": one["signal"] or one["exit_code"],
        "reason": one["reason"],
    }
    for name, value in facts.items():
        if value is not None:
            call.say(f"  {name:<11}{value}")
    return 0


def _logs(call: Call, job_id: str) -> int:
    if call.options.get("follow"):
        return _follow_logs(call, job_id)
    fields: dict[str, Any] = {"job": job_id}
    if "tail" in call.options:
        fields["tail"] = call.options["tail"]
    while True:
        result = call.ask("job_logs", **fields)
        for line in result["lines"]:
            _print_line(call, line)
        if not result["more"]:
            return 0
        fields = {"job": job_id, "cursor": result["cursor"]}


def _follow_logs(call: Call, job_id: str) -> int:
    fields: dict[str, Any] = {"job": job_id}
    if "tail" in call.options:
        fields["tail"] = call.options["tail"]
    seen = 0
    while True:
        try:
            # What was shown before a supervisor was replaced is not shown again.
            for place, item in enumerate(_items(call, "job_logs", fields), 1):
                if item["kind"] == "finished":
                    return _finish(call, item["job"])
                if place > seen:
                    seen = place
                    _print_line(call, item)
        except ConnectionLost:
            connect_again(call)


def _wait(call: Call, job_id: str) -> int:
    """Wait with a bar on a terminal; with --follow a line for every change."""
    has_bar = sys.stderr.isatty() and not call.is_json and call.environ.get("TERM") != "dumb"
    is_followed = call.options.get("follow")
    if "timeout" in call.options:
        found = call.ask("wait_job", job=job_id, timeout=call.options["timeout"])["job"]
        return _finish(call, found)
    while True:
        try:
            for item in _items(call, "wait_job", {"job": job_id}):
                one = item["job"]
                if item["kind"] == "finished":
                    if has_bar:
                        sys.stderr.write(_CLEAR)
                    return _finish(call, one)
                if call.is_json and is_followed:
                    call.emit_line(one)
                elif is_followed and not has_bar:
                    call.say(_line(one))
                elif has_bar:
                    sys.stderr.write(_CLEAR + cut(printable(_line(one)), 79))
                    sys.stderr.flush()
        except ConnectionLost:
            connect_again(call)


def _items(call: Call, command: str, fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    connection = call.connect()
    request = connection.send(command, **fields, follow=True)
    with interruptible() as wait:
        while True:
            frame = wait.receive(connection)
            if frame is None or frame.get("id") != request:
                continue
            if "item" not in frame:
                if frame.get("ok"):
                    raise ConnectionLost("the supervisor ended the answer", "try again")
                raise error_from(frame.get("error") or {})
            yield frame["item"]


def _finish(call: Call, one: dict[str, Any]) -> int:
    """Say how a job ended; the exit code is the job's."""
    if call.is_json:
        call.emit_line(one)
    elif one["state"] == "completed":
        result = "" if one["result"] is None else f": {_json(one['result'])}"
        call.note(f"{one['id']} is completed{result}")
    else:
        call.note(f"{one['id']} is {one['state']}: {one['reason']}")
    return 0 if one["state"] == "completed" else exit_code(one) or 1


def _cancel(call: Call, job_id: str) -> int:
    return _told(call, call.ask("cancel_job", job=job_id))


def _retry(call: Call, job_id: str) -> int:
    return _told(call, call.ask("retry_job", job=job_id))


def _told(call: Call, result: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(result)
    else:
        call.say(_line(result["job"]))
    return 0


def _pause(call: Call) -> int:
    return _said(call, call.ask("pause_jobs"))


def _resume(call: Call) -> int:
    return _said(call, call.ask("resume_jobs"))


def _said(call: Call, result: dict[str, Any]) -> int:
    if call.is_json:
        call.emit(result)
    else:
        call.say(result["message"])
    return 0


def _stats(call: Call) -> int:
    result = call.ask("job_stats")
    if call.is_json:
        call.emit(result)
        return 0
    paused = ", paused" if result["is_paused"] else ""
    call.say(f"{result['queue']}: {result['running']} of {result['concurrency']} run{paused}")
    for name, count in result["counts"].items():
        if count:
            call.say(f"  {name:<10}{count:>8}")
    totals = ", ".join(f"{count} {name}" for name, count in result["totals"].items())
    if totals:
        call.say(f"  so far: {totals}")
    if result["waits_for"]:
        call.note(f"nothing more is started: {result['waits_for']}")
    return 0


def _report(call: Call) -> int:
    """Tell the supervisor about the job that this runs in."""
    try:
        fields: dict[str, Any] = {
            "job": call.environ["HOLDFAST_JOB_ID"],
            "token": call.environ["HOLDFAST_JOB_TOKEN"],
        }
    except KeyError:
        raise UsageError("this is no job", "`job report` is for the job's own process") from None
    for name in ("progress", "result"):
        if name in call.options:
            fields[name] = _value(call.options[name])
    if len(fields) == 2:
        raise UsageError("there is nothing to report", "--progress 40, or --result TEXT")
    call.ask("report_job", **fields)
    return 0


def _value(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def _print_line(call: Call, line: dict[str, Any]) -> None:
    if call.is_json:
        call.emit_line(line)
        return
    if line.get("note"):
        call.note(line["text"])
        return
    text = line["text"]
    if line.get("encoding") == "base64":
        import base64

        text = base64.b64decode(text).decode(errors="replace")
    call.say(text)
    sys.stdout.flush()


def _line(one: dict[str, Any]) -> str:
    text = f"{one['id']} is {one['state']}"
    if one["progress"] is not None:
        return f"{text}  {_progress_text(one['progress'])}"
    return f"{text}: {one['reason']}" if one["reason"] else text


def _progress_text(progress: Any) -> str:
    if isinstance(progress, int | float) and 0 <= progress <= 100:
        filled = round(_BAR * progress / 100)
        return f"[{'#' * filled}{'.' * (_BAR - filled)}] {progress:g} %"
    return _json(progress)


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
