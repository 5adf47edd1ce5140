"""THE policy whether a custom command may be run. Pure.

The server's settings decide; what the caller says about its own command can only refuse it.
`app.application` asks before any handler. Every refusal says which setting would allow it. For
assistants, `mcp: {run: …}` decides which programs they may run.
"""

from __future__ import annotations

import os
import shlex

from holdfast.rules.authority.permissions import ALLOWED_BY_SETTINGS, PermissionVerdict
from holdfast.rules.workflows import argv_of, kind_of, unknown_name
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Door
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.holdfast import Run
from holdfast.vocabulary.jobs import AddJob
from holdfast.vocabulary.specs.settings import Settings
from holdfast.vocabulary.terminals import OpenTerminal
from holdfast.vocabulary.workflows import (
    BINARY,
    NAMED,
    SHELL,
    TOOLS,
    CustomCommand,
    CustomRestart,
    ExecuteCommand,
    RunWorkflow,
)

_SHELLS = frozenset(
    {"sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh"}
)
_WRAPPERS = frozenset({
    "env", "nohup", "nice", "ionice", "setsid", "timeout", "stdbuf", "xargs", "sudo", "doas",
    "busybox", "time", "flock", "taskset", "chrt", "unshare", "setpriv", "chroot", "strace",
})  # fmt: skip
_BY_PROGRAM = {program: kind for kind, program in TOOLS.items()}


def permit_commands(actor: Actor, command: Command, settings: Settings) -> PermissionVerdict:
    """Return whether an actor may run the commands that this command carries."""
    asked: list[CustomCommand] = []
    match command:
        case CustomRestart():
            asked = [*(command.pre_commands or ()), *(command.post_commands or ())]
        case ExecuteCommand():
            asked = [command.asked]
            is_brought = command.environment is not None or command.working_dir is not None
            if is_brought and actor.role is not Role.OWNER:
                return PermissionVerdict(
                    False, "only the owner at the local socket brings an environment"
                )
        case Run():
            return permit_run(actor, command, settings)
        case AddJob():
            return permit_job(actor, command, settings)
        case OpenTerminal():
            return _permit_terminal(actor, settings)
        case RunWorkflow():
            return _permit_workflow(command.workflow, settings)
        case _:
            pass
    for one in asked:
        verdict = permit_command(actor, one, settings)
        if not verdict.is_allowed:
            return verdict
    return ALLOWED_BY_SETTINGS


def permit_command(actor: Actor, command: CustomCommand, settings: Settings) -> PermissionVerdict:
    """Return whether an actor may run this command."""
    if command.is_safe is False:
        return _no(command, "it says of itself that it is not safe (is_safe: false)")
    if settings.is_production and command.allowed_in_production is False:
        return _no(command, "it says of itself that it is not for production")
    if kind_of(command, settings) == NAMED:
        return _permit_named(command, settings)
    try:
        argv = argv_of(command, settings)
    except UsageError as error:
        return _no(command, error.message, error.hint)
    if settings.is_production:
        why = "in production only commands of the configuration are run"
        setting = "name it under `commands:`, with `allowed_in_production: true`"
        return _no(command, why, setting)
    return _permit_words(actor, command, argv, settings)


def permit_run(actor: Actor, command: Run, settings: Settings) -> PermissionVerdict:
    """Return whether an actor may have this program supervised."""
    if actor.door is Door.CLI:
        return ALLOWED_BY_SETTINGS
    mcp = settings.mcp
    if not mcp.run:
        return PermissionVerdict(False, "running programs is off; `mcp: {run: true}` allows it")
    if settings.is_production:
        return PermissionVerdict(False, "in production only commands of the configuration are run")
    folder = os.path.normpath(command.working_dir or ".")
    if os.path.isabs(folder) or folder.split(os.sep)[0] == os.pardir:
        return PermissionVerdict(False, f'"{command.working_dir}" is not below the project')
    if mcp.programs is None or not command.argv:
        return ALLOWED_BY_SETTINGS
    if not any(tuple(command.argv[: len(words)]) == words for words in mcp.programs):
        program = redact(command.argv[0])[:60]
        allowed = ", ".join(" ".join(words) for words in mcp.programs) or "nothing"
        return PermissionVerdict(False, f'"{program}": `mcp: {{run: …}}` allows only {allowed}')
    if command.environment:
        # Another PATH or a preloaded library would make the allowed words run something else.
        return PermissionVerdict(
            False, "where programs are listed, the caller gives no environment"
        )
    if "/" in command.argv[0] and folder != "." and not os.path.isabs(command.argv[0]):
        return PermissionVerdict(False, f'"{command.argv[0]}" is another program in another folder')
    return ALLOWED_BY_SETTINGS


def permit_job(actor: Actor, command: AddJob, settings: Settings) -> PermissionVerdict:
    """Return whether an actor may add this job: a template as it is written, with further words
    only where it takes them; a command of its own as far as the actor may run programs. For
    network doors that means: as if it were executed at once."""
    if command.kind == "kill":
        return ALLOWED_BY_SETTINGS
    if command.template is None:
        if actor.door is not Door.CLI and actor.role not in (Role.OWNER, Role.ADMIN):
            why = "a command of its own takes an admin; name a template of `jobs:`"
            if not settings.mcp.run or actor.door is not Door.MCP:
                return PermissionVerdict(False, why)
        if actor.door is Door.CLI:
            return ALLOWED_BY_SETTINGS
        if actor.door is Door.MCP:
            asked = Run(
                argv=command.argv,
                working_dir=command.working_dir or ".",
                environment=command.env or {},
            )
            return permit_run(actor, asked, settings)
        return _permit_own_words(actor, command, settings)
    template = settings.jobs.get(command.template)
    if template is None or not command.argv or template.takes_args:
        return ALLOWED_BY_SETTINGS
    if actor.role in (Role.OWNER, Role.ADMIN):
        return ALLOWED_BY_SETTINGS
    setting = f"`jobs: {{{command.template}: {{takes_args: true}}}}`"
    return PermissionVerdict(False, f"{command.template} takes no arguments; {setting} allows it")


def _permit_own_words(actor: Actor, command: AddJob, settings: Settings) -> PermissionVerdict:
    """Return whether a job may bring its words through a network door."""
    asked = CustomCommand(
        command=shlex.quote(command.argv[0]),
        command_type=BINARY,
        args=command.argv[1:],
        working_dir=command.working_dir,
        env=command.env,
    )
    verdict = permit_command(actor, asked, settings)
    if verdict.is_allowed:
        return verdict
    return PermissionVerdict(False, f"{verdict.reason}; or write a template under `jobs:`")


def permit_named(name: str, settings: Settings) -> PermissionVerdict:
    """Return whether a command of the configuration may be run, by anybody."""
    spec = settings.commands.get(name)
    if spec is None:
        return PermissionVerdict(False, unknown_name(name, settings))
    if not spec.is_safe:
        why = f'"{name}" is not safe, the configuration says'
        return PermissionVerdict(
            False, f"{why}; `commands: {{{name}: {{is_safe: true}}}}` allows it"
        )
    if settings.is_production and not spec.allowed_in_production:
        setting = f"`commands: {{{name}: {{allowed_in_production: true}}}}`"
        return PermissionVerdict(False, f'"{name}" is not for production; {setting} allows it')
    return ALLOWED_BY_SETTINGS


def _permit_terminal(actor: Actor, settings: Settings) -> PermissionVerdict:
    if actor.role is Role.OWNER or settings.command_policy.allow_terminals:
        return ALLOWED_BY_SETTINGS
    setting = "`commands: {allow_terminals: true}` lets operators open them"
    return PermissionVerdict(False, f"terminals beside services are off; {setting}")


def _permit_named(command: CustomCommand, settings: Settings) -> PermissionVerdict:
    if command.args or command.env or command.working_dir:
        why = "a command of the configuration takes no args, env or working_dir of the caller"
        return _no(command, why, "give another `command_type`, or write them into `commands:`")
    return permit_named(command.command, settings)


def _permit_workflow(name: str, settings: Settings) -> PermissionVerdict:
    spec = settings.workflows.get(name)
    if spec is None:
        # There is nothing to allow; the handler says that it does not exist.
        return ALLOWED_BY_SETTINGS
    if settings.is_production and not spec.allowed_in_production:
        setting = f"`workflows: {{{name}: {{allowed_in_production: true}}}}`"
        return PermissionVerdict(False, f'"{name}" is not for production; {setting} allows it')
    for step in spec.steps:
        if step.command is not None:
            verdict = permit_named(step.command, settings)
            if not verdict.is_allowed:
                return verdict
    return ALLOWED_BY_SETTINGS


def _permit_words(
    actor: Actor, command: CustomCommand, argv: tuple[str, ...], settings: Settings
) -> PermissionVerdict:
    """Return whether words that are not of the configuration may be executed."""
    policy, kind = settings.command_policy, _kind_of_words(argv)
    allowed = policy.allowed_types
    is_owner = actor.role is Role.OWNER
    if kind == SHELL and not (SHELL in (allowed or ()) or (is_owner and policy.allow_shell)):
        setting = "`commands: {allow_shell: true}`" if is_owner else _types_setting(SHELL)
        return _no(command, "shells are disabled", f"set {setting}")
    if not is_owner and allowed is None:
        why = "through this door only commands of the configuration are run"
        return _no(command, why, f"name it under `commands:`, or {_types_setting(kind)} allows it")
    # The types are what requests may bring; the owner could run it in the next shell anyway.
    is_bound = not is_owner and kind != SHELL
    if is_bound and kind not in (allowed or ()) and BINARY not in (allowed or ()):
        return _no(command, f"the type {kind} is not allowed", f"{_types_setting(kind)} allows it")
    programs = policy.allowed_programs
    if programs is None:
        return ALLOWED_BY_SETTINGS
    if not any(argv[: len(prefix)] == prefix for prefix in programs):
        setting = f"`commands: {{allowed_programs: [{argv[0]}]}}`"
        return _no(command, "it begins with none of the allowed programs", f"{setting} allows it")
    if not is_owner and (command.env or command.working_dir):
        # Another PATH or another folder would make the allowed words run something else.
        return _no(command, "with `allowed_programs`, the caller gives neither env nor working_dir")
    return ALLOWED_BY_SETTINGS


def _kind_of_words(argv: tuple[str, ...]) -> str:
    """Return what is really executed: a shell by another name is a shell."""
    program = os.path.basename(argv[0])
    names = {program}
    if program in _WRAPPERS:
        # Also `env -S "sh -c …"`: words within a word.
        names.update(os.path.basename(part) for word in argv[1:] for part in word.split())
    if names & _SHELLS:
        return SHELL
    return _BY_PROGRAM.get(argv[0], BINARY)


def _types_setting(kind: str) -> str:
    return f"`commands: {{allowed_types: [{kind}]}}`"


def _no(command: CustomCommand, why: str, setting: str = "") -> PermissionVerdict:
    text = redact(command.command)[:60]
    return PermissionVerdict(False, f'"{text}": {why}' + (f"; {setting}" if setting else ""))
