"""The handler of `open_terminal`: a shell beside a service, as a service of its own."""

from __future__ import annotations

import os
import pwd

from msgspec.structs import replace

from holdfast.app.context import Context
from holdfast.app.handlers.services import claim, with_last_lines
from holdfast.app.registry import handles
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.errors import Conflict
from holdfast.vocabulary.specs.services import LogSpec, ServiceSpec, StopSpec
from holdfast.vocabulary.terminals import OpenTerminal, TerminalResult

MOST_TERMINALS = 16
"""Terminals beside one service; a name is used again once its shell has ended."""
_LONGEST_NAME = 45
_LOG_BYTES = 4 * 1024 * 1024
_EVERY_CODE = tuple(range(256))
_NO_SHELLS = frozenset({"nologin", "false", "sync"})
_PLAIN_SHELL = "/bin/sh"


@handles(OpenTerminal)
async def open_terminal(context: Context, command: OpenTerminal, actor: Actor) -> TerminalResult:
    context.shutdown.check_not_begun()
    runner = context.roster.get(command.service)
    name = _free_name(context, runner.name)
    declared = runner.declaration
    shell = await context.in_thread(_shell, declared.spec, declared.environ)
    declaration = Declaration(_spec(runner, name, shell), declared.environ, declared.environ_key)
    async with context.changes:
        context.roster.declare(declaration)
    claim(context, [name], actor)
    outcomes = await context.roster.start([name], wait=True)
    told = await with_last_lines(context, outcomes)
    return TerminalResult(service=name, beside=runner.name, outcome=told[name])


def _free_name(context: Context, service: str) -> str:
    beginning = service[:_LONGEST_NAME].replace("@", "-")
    for number in range(1, MOST_TERMINALS + 1):
        name = f"{beginning}-terminal-{number}"
        runner = context.roster.runners.get(name)
        is_ours = runner is not None and runner.declaration.spec.origin == "run"
        if runner is None or (is_ours and not runner.has_processes):
            return name
    message = f"{MOST_TERMINALS} terminals are open beside {service}"
    raise Conflict(message, "end one of them: type `exit`, or stop it")


def _spec(runner: Runner, name: str, shell: str) -> ServiceSpec:
    """Return the service's declaration with a shell in place of its program, which nobody waits
    for, restarts or probes."""
    spec = runner.declaration.spec
    return ServiceSpec(
        name=name,
        argv=(shell,),
        working_dir=spec.working_dir,
        confined_to=spec.confined_to,
        env=dict(spec.env),
        environment=spec.environment,
        restart_policy="never",
        start_seconds=0.0,
        success_exit_codes=_EVERY_CODE,
        stop=StopSpec(grace=1.0),
        terminal=True,
        user=spec.user,
        umask=spec.umask,
        rlimits=spec.rlimits,
        cpu_limit=spec.cpu_limit,
        memory_limit=spec.memory_limit,
        process_limit=spec.process_limit,
        log=replace(LogSpec(), max_size=_LOG_BYTES, total_size=2 * _LOG_BYTES),
        origin="run",
    )


def _shell(spec: ServiceSpec, environ: dict[str, str]) -> str:
    """Return the shell of the user that the service runs as, or a plain one."""
    if spec.user is None:
        wanted = environ.get("SHELL") or os.environ.get("SHELL") or ""
    else:
        try:
            number = int(spec.user) if spec.user.isdecimal() else None
            entry = pwd.getpwnam(spec.user) if number is None else pwd.getpwuid(number)
            wanted = entry.pw_shell
        except KeyError:
            wanted = ""
    is_usable = os.path.basename(wanted) not in _NO_SHELLS and os.access(wanted, os.X_OK)
    return wanted if is_usable and os.path.isabs(wanted) else _PLAIN_SHELL
