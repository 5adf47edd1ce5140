"""`holdfast up`: start what is declared, then return, or stay and show the output.

Also `launch`, by which every verb that needs a running Holdfast starts one. Until the keeper is
started, only light modules may be imported: keeper and supervisor load at the same time.
"""

from __future__ import annotations

from holdfast.cli.configuration import (
    check_trust,
    given_settings,
    note_unread,
    require_configuration,
)
from holdfast.cli.parser.verbs import (
    NO_PREFIX,
    NO_WAIT,
    SERVICES,
    TIMEOUT,
    TIMESTAMPS,
    Option,
    Verb,
)
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway, service_environment
from holdfast.client.launch import ensure_running, own_keeper
from holdfast.vocabulary.errors import Failed, HoldfastError, NoDaemon, ShuttingDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.cli.call import Call
    from holdfast.cli.terminal.own_log import OwnLog
    from holdfast.client.connection import Connection
    from holdfast.client.launch import Daemon
    from holdfast.logbook.cursors import Cursor


@Verb(
    "up",
    "Start the services of the configuration",
    operands=SERVICES,
    most=None,
    options=(
        Option("-d --detach", "return when they run, instead of showing their output"),
        Option("--unless-stopped", "leave off what was stopped by hand; for the start at boot"),
        Option(
            "--profile",
            "start the services of this profile, too; may be repeated",
            "NAME",
            "several",
        ),
        Option("--trust", "start a configuration that an assistant may have written"),
        NO_WAIT,
        TIMEOUT,
        TIMESTAMPS,
        NO_PREFIX,
        Option("--no-http", "leave out HTTP: no gate, no dashboard"),
        Option("--http-port", "port of HTTP", "N", "number"),
    ),
    commands=("up", "watch", "events", "status", "shutdown"),
    about=(
        "What runs already is left alone; what was stopped by hand is started, unless\n"
        "--unless-stopped says otherwise.\n"
        "In the foreground, Ctrl-C in the `up` that started Holdfast stops everything\n"
        "(twice: at once); in one that joined it, it only detaches. So does closing the\n"
        "terminal: services go on, and `holdfast up` shows them again.\n"
        "The one that started Holdfast shows its log, too, on standard error: warnings,\n"
        "or all of it if you give a --log-level, or log_level in the configuration.\n"
        "A configuration that was found inside the project of another Holdfast is named.\n"
        "If it was written while that one ran, you are asked before its first start;\n"
        "where nobody can be asked, it is refused (exit code 5) without --trust."
    ),
    examples=(
        ("holdfast up", "start everything and show its output"),
        ("holdfast up -d", "start everything in the background"),
        ("holdfast up -d --timeout 10m", "and wait for a slow migration"),
        ("holdfast up -d --unless-stopped", "at boot: what was stopped by hand stays so"),
        ("holdfast up web db", "start two services, and what they depend on"),
    ),
)
def up(call: Call) -> int:
    is_detached = bool(call.options.get("detach"))
    require_configuration(call)
    note_unread(call, call.places.config)
    check_trust(call)
    if is_detached:
        daemon, result = launch(call, lambda: _ask(call, _fields(call, is_detached=True)))
        return _report(call, result, is_first=daemon.keeper is not None)
    from holdfast.cli.terminal.output import log_ends
    from holdfast.cli.terminal.own_log import OwnLog
    from holdfast.cli.terminal.signals import treat_sigterm_as_interrupt

    treat_sigterm_as_interrupt()
    ends = log_ends(call.places.logs)
    own_log = OwnLog(call.places.own_log)
    since = 0

    def ask() -> dict[str, Any]:
        nonlocal since
        since = call.ask("events", limit=1).get("last", 0)
        return _ask(call, _fields(call, is_detached=False))

    daemon, result = launch(call, ask)
    is_ours = daemon.keeper is not None
    if result.get("is_level_given"):
        own_log.show_all()
    try:
        return _stay(call, daemon, result, ends, since, own_log if is_ours else None)
    except KeyboardInterrupt:
        _undo(call, is_interrupted=True)
        raise
    finally:
        if is_ours:
            own_log.finish()


def _stay(
    call: Call,
    daemon: Daemon,
    result: dict[str, Any],
    ends: dict[str, Cursor],
    since: int,
    own_log: OwnLog | None,
) -> int:
    from holdfast.cli.foreground import Foreground

    _note_changes(call, result)
    _note_waiting(call, result)
    names = list(result["services"])
    if not names:
        call.note("nothing to start yet; `holdfast start SERVICE` or `holdfast run` does")
    try:
        _note_doors(call, is_first=daemon.keeper is not None)
        shown = _shown(call, result)
    except NoDaemon:
        # An essential service may have ended everything by now; the foreground reports it.
        shown = names if call.operands else []
    return Foreground(call, daemon.keeper, ends, shown, names, since, own_log).stay()


def _shown(call: Call, result: dict[str, Any]) -> list[str]:
    """The services that were asked for, with groups, tags and instances resolved."""
    asked = call.operands
    if all(name in result["services"] for name in asked):
        return asked
    return list(call.ask("status", services=asked)["services"])


def start_quietly(call: Call) -> None:
    """Start Holdfast and its services and print nothing, because standard output is MCP's."""
    require_configuration(call)
    check_trust(call)
    try:
        launch(call, lambda: call.ask("up", **_fields(call, is_detached=False)))
    finally:
        call.close()


def launch(call: Call, ask: Callable[[], dict[str, Any]]) -> tuple[Daemon, dict[str, Any]]:
    """Join or start a Holdfast and ask it. If that fails, end a Holdfast that was started here."""
    try:
        return _launch(call, ask)
    except NoDaemon:
        raise
    except (HoldfastError, KeyboardInterrupt) as error:
        _undo(call, is_interrupted=isinstance(error, KeyboardInterrupt))
        raise


def _launch(call: Call, ask: Callable[[], dict[str, Any]]) -> tuple[Daemon, dict[str, Any]]:
    """If the Holdfast is being shut down, wait for its end and start another."""
    is_first, is_again = True, False
    while True:
        daemon = ensure_running(call.places, call.environ)
        if not is_first and daemon.keeper is None:
            daemon.keeper = own_keeper(call.places)  # an earlier turn of this loop started it
        is_first = False
        call.use(daemon.connection)
        try:
            return daemon, ask()
        except ShuttingDown as error:
            call.note(f"{error.message}; it is started again when that is done")
            _await_end(call, daemon.connection)
        except SupervisorAway:
            raise
        except NoDaemon as error:
            if isinstance(error, ConnectionLost) and not _is_down(call):
                raise  # its supervisor died and may have begun the request
            # A supervisor that shuts down answers every request that it has begun. No answer means
            # that the request came too late.
            if is_again:
                raise Failed("Holdfast was shut down again and again", error.hint) from error
            is_again = True


def _is_down(call: Call) -> bool:
    from holdfast.cli.down import LAST_STEPS_SECONDS, is_gone

    return is_gone(call.places.state, LAST_STEPS_SECONDS)


def _await_end(call: Call, connection: Connection) -> None:
    """Wait until the supervisor closes the connection, when everything is stopped."""
    try:
        while True:
            connection.receive(None)
    except ConnectionLost:
        call.use(None)


def _fields(call: Call, *, is_detached: bool) -> dict[str, Any]:
    return {
        "config": call.places.config,
        "services": call.operands,
        **({"unless_stopped": True} if call.options.get("unless_stopped") else {}),
        "environment": environment_of(call),
        "settings": given_settings(call),
        "wait": is_detached and not call.options.get("no_wait"),
        **({"timeout": call.options["timeout"]} if "timeout" in call.options else {}),
    }


def environment_of(call: Call) -> dict[str, str]:
    """The caller's environment, as services get it."""
    environment, left_out = service_environment(call.environ)
    for name in left_out:
        call.note(f"the variable {name!a} is not UTF-8 and is left out")
    return environment


def _ask(call: Call, fields: dict[str, Any]) -> dict[str, Any]:
    if not fields["wait"]:
        return call.ask("up", **fields)
    from holdfast.cli.terminal.progress import Progress

    return Progress(call).ask("up", **fields)


def _undo(call: Call, *, is_interrupted: bool) -> None:
    """End the Holdfast again if this call started it, unless another client uses it by now."""
    from holdfast.cli.down import ShutdownReport, shut_down

    if own_keeper(call.places) is None:
        return
    try:
        if not is_interrupted:
            services = call.ask("status")["services"].values()
            if any(service["pid"] for service in services):
                return  # another client has joined it since
        shut_down(call, ShutdownReport(), keep_running=False, now=False)
    except HoldfastError as error:
        call.note(f"and it could not be ended again: {error.message}")


def _report(call: Call, result: dict[str, Any], *, is_first: bool) -> int:
    services: dict[str, dict[str, Any]] = result["services"]
    from holdfast.cli.services import describe, has_failed

    failed = has_failed(call, services)
    if call.is_json:
        call.emit(result)
        return int(failed)
    if not services:
        call.say("no service to start")
    for name, outcome in services.items():
        for line in describe(call, name, outcome):
            call.say(line)
    _note_changes(call, result)
    _note_doors(call, is_first=is_first)
    return int(failed)


def _note_waiting(call: Call, result: dict[str, Any]) -> None:
    if call.is_json:
        return
    for name, outcome in result["services"].items():
        if outcome["outcome"] == "waiting":
            call.note(f"{name}: {outcome.get('reason')}")


def _note_doors(call: Call, *, is_first: bool) -> None:
    """Say what is unusual about the doors: closed ones, a certificate to compare, and once, in one
    line, those that are elsewhere because their usual ports are taken."""
    supervisor: dict[str, Any] = call.ask("status").get("supervisor") or {}
    doors: dict[str, str] = supervisor.get("doors") or {}
    notes: dict[str, str] = supervisor.get("door_notes") or {}
    for name, note in notes.items():
        if name not in doors:
            call.note(f"{name} is closed: {note}")
    moved = [f"{name} at {doors[name]}" for name in notes if name in doors]
    if moved and is_first:
        call.note(f"the usual ports are taken: {', '.join(moved)} (`holdfast ports --all`)")
    if fingerprint := supervisor.get("fingerprint"):
        call.note(f"certificate of HTTPS: SHA-256 {fingerprint}")


def _note_changes(call: Call, result: dict[str, Any]) -> None:
    if call.is_json:
        return
    for warning in result.get("warnings") or ():
        call.note(f"warning: {warning}")
    for name in result.get("stays_stopped") or ():
        call.note(f"{name} stays stopped, as it was; holdfast start {name} starts it")
    changed, removed = result.get("changed") or [], result.get("removed") or []
    for name in changed:
        call.note(f"{name} is still running with the old configuration")
    for name in removed:
        call.note(f"{name} is no longer declared")
    if changed or removed:
        call.note("what runs is left alone; holdfast reload applies the changes")
