"""The verbs that run commands and workflows, and show their steps and output meanwhile."""

from __future__ import annotations

import os
import shlex
import signal
import sys

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.run import exit_code
from holdfast.cli.terminal import durations
from holdfast.cli.terminal.signals import InterruptibleWait, interruptible
from holdfast.cli.up import environment_of
from holdfast.client.connection import ConnectionLost, error_from
from holdfast.vocabulary.errors import Failed, TimedOut, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ALWAYS_ASKED = ("cancel_workflow", "events")
_COLOURS = {"done": "green", "failed": "red", "timeout": "red", "cancelled": "red"}


@Verb(
    "custom-restart",
    "Run commands, restart a service, run commands",
    operands="[SERVICE]",
    most=1,
    options=(
        Option("--pre-command", "run before; may be repeated", "COMMAND", "several"),
        Option("--post-command", "run afterwards; may be repeated", "COMMAND", "several"),
        Option("--args", "replace its arguments, until the next start", "WORDS"),
        Option("-e --env", "add to its environment, until the next start", "N=V", "pairs"),
        Option("--timeout", "how long the whole may take", "TIME", "duration"),
        Option("--shell", "the commands are for a shell, where the settings allow it"),
    ),
    commands=("custom_restart", *_ALWAYS_ASKED),
    about=(
        "A command before that fails ends it, and the service is not touched. A command is\n"
        "one of `commands:` by its name, or words. Ctrl-C ends the command that runs."
    ),
    examples=(
        (
            'holdfast custom-restart web --pre-command "make clean" --post-command "echo done"',
            "clean first, tell afterwards",
        ),
        (
            'holdfast custom-restart web --args "--config production.yaml" --env LOG=info',
            "with other arguments and variables, once",
        ),
    ),
)
def custom_restart(call: Call) -> int:
    fields: dict[str, Any] = {}
    if call.operands:
        fields["service"] = call.operands[0]
    for option, field in (("pre_command", "pre_commands"), ("post_command", "post_commands")):
        if option in call.options:
            fields[field] = [_command(call, text) for text in call.options[option]]
    if "args" in call.options:
        try:
            fields["start_args"] = shlex.split(call.options["args"])
        except ValueError as error:
            raise UsageError(f"--args: {error}", "put quotes around the whole, once") from None
    if "env" in call.options:
        fields["env_vars"] = call.options["env"]
    if "timeout" in call.options:
        fields["timeout"] = call.options["timeout"]
    return _report(call, RequestFollower(call).follow("custom_restart", fields))


@Verb(
    "exec",
    "Run a command as a service would run it, or one of the configuration",
    operands="[SERVICE] -- COMMAND…",
    least=1,
    most=None,
    options=(
        Option("-e --env", "add to the service's environment", "N=V", "pairs"),
        Option("-w --workdir", "another folder than the service's", "DIR"),
        Option(
            "--timeout",
            "how long it may take; 10m by default (not with SERVICE)",
            "TIME",
            "duration",
        ),
        Option("--type", "make, shell, binary, cargo, npm, python, named …", "TYPE"),
        Option("--service", "run it through the supervisor, where this service runs", "NAME"),
    ),
    commands=("execute_command", "environment", "status", *_ALWAYS_ASKED),
    about=(
        "With SERVICE, the command gets the folder, the user and the environment of that\n"
        "service, with your terminal and your standard input. It is a process of yours:\n"
        "Holdfast does not supervise it. Only the owner may do this, at this machine.\n"
        "Without SERVICE, the supervisor runs the command: the settings under `commands:`\n"
        "decide what may be run (by default no shell), and at its timeout its whole tree is killed."
    ),
    examples=(
        ("holdfast exec web -- bash", "a shell in the folder and environment of web"),
        ("holdfast exec web -- ./manage.py migrate", "a command there"),
        ("holdfast exec db -- psql < dump.sql", "standard input is passed on"),
        ("holdfast exec migrate", "a command of the configuration"),
        ("holdfast exec -- make clean", "in this folder, under the policy of `commands:`"),
    ),
    is_command_line=True,
)
def execute(call: Call) -> int:
    if (words := _words_for_service(call)) is not None:
        from holdfast.cli.environment import become

        become(call, call.operands[0], words)
    for name in ("env", "workdir"):
        if name in call.options:
            raise UsageError(
                f"--{name} is for the command of a service", "holdfast exec SERVICE -- COMMAND"
            )
    program, *args = call.operands
    command: dict[str, Any] = {"command": shlex.quote(program)}
    if "type" in call.options:
        command["command_type"] = call.options["type"]
        if call.options["type"].lower() in ("shell", "sh"):
            command["command"] = program
    if args:
        command["args"] = args
    fields: dict[str, Any] = {"custom_command": command}
    if "timeout" in call.options:
        fields["timeout_seconds"] = call.options["timeout"]
    if "service" in call.options:
        fields["service"] = call.options["service"]
    else:
        fields["working_dir"] = os.path.realpath(call.folder)
        fields["environment"] = environment_of(call)
    result = RequestFollower(call, shows_steps=False).follow("execute_command", fields)
    if call.is_json:
        call.emit(result)
    step = result["steps"][0]
    if step["outcome"] == "timeout":
        raise TimedOut(f"{step['what']} {step['reason']}", "holdfast exec --timeout TIME -- …")
    if result["outcome"] == "cancelled":
        return 128 + signal.SIGINT
    if step.get("exit_code") is None and not step.get("signal"):
        raise Failed(f"{step['what']}: {step.get('reason') or 'its exit code is unknown'}")
    return exit_code(step)


def _words_for_service(call: Call) -> list[str] | None:
    """The command behind the name of a service; None if no service is named."""
    name, *words = call.operands
    if call.begins_with_dashes:
        return None
    if words[:1] == ["--"]:
        if not words[1:]:
            raise UsageError("there is no command to run", f"holdfast exec {name} -- COMMAND")
        return words[1:]
    if "service" in call.options or "type" in call.options:
        return None
    # As with compose: `exec web bash`. A command of the configuration has no such name.
    services = call.ask("status")["services"]
    if name not in services:
        return None
    if not words:
        raise UsageError(f"what is to be run in {name}?", f"holdfast exec {name} -- bash")
    return words


@Verb(
    "workflow",
    "Run a workflow, or list all of them",
    operands="[run NAME|ls]",
    most=2,
    options=(
        Option("--cancel", "end what is under way under this id", "ID"),
        Option("--watch", "show what is under way under this id, to its end", "ID"),
    ),
    commands=("run_workflow", "workflows", "follow_workflow", *_ALWAYS_ASKED),
    examples=(
        ("holdfast workflow run deploy", "step by step, with what each prints"),
        ("holdfast workflow ls", "those of the configuration, and what is under way"),
    ),
)
def workflow(call: Call) -> int:
    if "cancel" in call.options:
        result = call.ask("cancel_workflow", workflow=call.options["cancel"])
        call.emit(result) if call.is_json else call.say(result["message"])
        return 0
    if "watch" in call.options:
        fields = {"workflow": call.options["watch"]}
        return _report(call, RequestFollower(call, is_ours=False).follow("follow_workflow", fields))
    words = call.operands
    if not words or words == ["ls"]:
        return _list(call)
    if len(words) == 2 and words[0] != "run":
        raise UsageError(f'"{words[0]}" is neither run nor ls', "holdfast workflow run NAME")
    if words == ["run"]:
        raise UsageError("which workflow?", "`holdfast workflow ls` lists them")
    return _report(call, RequestFollower(call).follow("run_workflow", {"name": words[-1]}))


class RequestFollower:
    """Follows one request to its end and shows its steps."""

    def __init__(self, call: Call, *, shows_steps: bool = True, is_ours: bool = True) -> None:
        self._call = call
        self._shows_steps = shows_steps
        self._is_ours = is_ours
        """Whether Ctrl-C cancels it; else it only ends this process."""
        self._id = ""
        self._is_cancelling = False

    def follow(self, command: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Show what happens; returns the result."""
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            with interruptible() as wait:
                return self._follow(wait, command, fields)
        except ConnectionLost:
            if not self._id:
                raise
        finally:
            signal.signal(signal.SIGINT, before)
        raise self._interrupted()

    def _on_interrupt(self, number: int, frame: object) -> None:
        """The first Ctrl-C cancels the work, the second ends this process."""
        if self._is_cancelling or not self._id or not self._is_ours:
            raise KeyboardInterrupt
        self._is_cancelling = True

    def _follow(
        self, wait: InterruptibleWait, command: str, fields: dict[str, Any]
    ) -> dict[str, Any]:
        connection = self._call.connect()
        request = connection.send(command, **fields, follow=True)
        is_cancelled = False
        while True:
            frame = wait.receive(connection)
            if self._is_cancelling and not is_cancelled:
                is_cancelled = True
                connection.send("cancel_workflow", workflow=self._id)
            if frame is None or frame.get("id") != request:
                continue
            if "item" not in frame:
                raise error_from(frame.get("error") or {})
            item: dict[str, Any] = frame["item"]
            if item["kind"] == "finished":
                found: dict[str, Any] = item["result"]
                return found
            self._show(item)

    def _show(self, item: dict[str, Any]) -> None:
        match item["kind"]:
            case "started":
                self._id = item["id"]
            case "output" if not self._call.is_json:
                _write(item)
            case "lost" if not self._call.is_json:
                self._call.note(f"{item['bytes']} bytes of output are left out")
            case "step" if self._shows_steps and not self._call.is_json:
                self._call.say(_step_line(self._call, item))
                sys.stdout.flush()

    def _interrupted(self) -> Failed:
        """The error to raise if the supervisor was replaced; its successor's events say how the
        work ended."""
        self._call.use(None)
        events = self._call.ask("events", limit=1000)["events"]
        for event in reversed(events):
            data = event.get("data") or {}
            if data.get("id") == self._id and event["kind"].endswith(":finished"):
                return Failed(f"{data['name']}: {data['outcome']}: {data.get('reason')}")
        return Failed("the supervisor was replaced, and nothing is known of what it did")


def _command(call: Call, text: str) -> dict[str, Any]:
    command = {"command": text}
    if call.options.get("shell"):
        command["command_type"] = "shell"
    return command


def _write(item: dict[str, Any]) -> None:
    data = item["text"].encode() if "text" in item else _decoded(item["data"])
    target = sys.stdout.buffer if item["stream"] == "out" else sys.stderr.buffer
    target.write(data)
    target.flush()


def _decoded(text: str) -> bytes:
    import base64

    return base64.b64decode(text)


def _step_line(call: Call, item: dict[str, Any]) -> str:
    head = call.paint(f"[{item['step']}/{item['steps']}]", "dim")
    outcome = item["outcome"]
    if outcome == "begun":
        return f"{head} {item['what']}"
    line = f"{head} {call.paint(outcome, _COLOURS.get(outcome, 'dim'))}"
    if item.get("reason"):
        line += f": {item['reason']}"
    return line + (f" ({durations.show(item['seconds'])})" if "seconds" in item else "")


def _report(call: Call, result: dict[str, Any]) -> int:
    """Report how it ended: what failed, what was not done, the state of the service."""
    is_done = result["outcome"] == "done"
    if call.is_json:
        call.emit(result)
        return int(not is_done)
    skipped = [step["what"] for step in result["steps"] if step["outcome"] == "skipped"]
    if skipped:
        call.say(f"not done: {'; '.join(skipped)}")
    line = f"{result['name']}: {call.paint(result['outcome'], _COLOURS[result['outcome']])}"
    if result.get("reason") and not is_done:
        line += f": {result['reason']}"
    call.say(f"{line} ({durations.show(result['seconds'])})")
    status = result.get("status")
    if status is not None:
        restarts = [step for step in result["steps"] if step.get("part") == "restart"]
        is_touched = any(step["outcome"] != "skipped" for step in restarts)
        pid = f", pid {status['pid']}" if status.get("pid") else ""
        how = "" if is_touched else " and was not touched"
        call.say(f"{result['service']} is {status['status']}{how}{pid}")
    return int(not is_done)


def _list(call: Call) -> int:
    result = call.ask("workflows")
    if call.is_json:
        call.emit(result)
        return 0
    for name, spec in result["workflows"].items():
        about = f": {spec['description']}" if spec["description"] else ""
        call.say(f"{call.paint(name, 'bold')}{about}")
        for number, step in enumerate(spec["steps"], 1):
            call.say(f"  {number}. {step}")
    if not result["workflows"]:
        call.say("no workflows; write them under `workflows:` in the configuration")
    for work in result["under_way"]:
        took = durations.show(work["seconds"])
        where = f"step {work['step']} of {work['steps']} ({work['what']})"
        call.say(f"under way: {work['name']}, {where}, for {took}: {work['id']}")
    return 0
