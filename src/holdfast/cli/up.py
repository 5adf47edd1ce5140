"""`holdfast up`: start what is declared, then return, or stay and show what it prints."""

from __future__ import annotations

import os

from holdfast.cli import trust
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway
from holdfast.client.launch import ensure_running, own_keeper
from holdfast.system.places import CONFIG_NAMES, how_to_write, unread_beside
from holdfast.vocabulary.errors import ConfigError, Failed, HoldfastError, NoDaemon, ShuttingDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.cli.call import Call
    from holdfast.cli.terminal.own_log import OwnLog
    from holdfast.client.connection import Connection
    from holdfast.client.launch import Launched
    from holdfast.logbook.cursors import Cursor


def up(call: Call) -> int:
    is_detached = bool(call.options.get("detach"))
    check_there_is_something(call)
    tell_unread(call, call.places.config)
    trust.check(call)
    if is_detached:
        return _tell(call, launch(call, lambda: _ask(call, _fields(call, is_detached=True)))[1])
    from holdfast.cli.terminal.output import ends_of
    from holdfast.cli.terminal.own_log import OwnLog
    from holdfast.cli.terminal.signals import heed_sigterm

    heed_sigterm()
    ends = ends_of(call.places.logs)
    own_log = OwnLog(call.places.own_log)
    since = 0

    def ask() -> dict[str, Any]:
        nonlocal since
        since = call.ask("events", limit=1).get("last", 0)
        return _ask(call, _fields(call, is_detached=False))

    launched, result = launch(call, ask)
    is_ours = launched.keeper is not None
    if result.get("is_level_given"):
        own_log.show_all()
    try:
        return _stay(call, launched, result, ends, since, own_log if is_ours else None)
    except KeyboardInterrupt:
        _undo(call, is_interrupted=True)
        raise
    finally:
        if is_ours:
            own_log.finish()


def _stay(
    call: Call,
    launched: Launched,
    result: dict[str, Any],
    ends: dict[str, Cursor],
    since: int,
    own_log: OwnLog | None,
) -> int:
    from holdfast.cli.foreground import Foreground

    _tell_changes(call, result)
    _tell_waiting(call, result)
    names = list(result["services"])
    if not names:
        call.note("nothing to start yet; `holdfast start SERVICE` or `holdfast run` does")
    try:
        _tell_doors(call)
        shown = _shown(call, result)
    except NoDaemon:
        # An essential service can have ended everything by now: the foreground tells how.
        shown = names if call.operands else []
    return Foreground(call, launched.keeper, ends, shown, names, since, own_log).stay()


def _shown(call: Call, result: dict[str, Any]) -> list[str]:
    """The services that were asked for: groups, tags and instances are what they stand for."""
    asked = call.operands
    if all(name in result["services"] for name in asked):
        return asked
    return list(call.ask("status", services=asked)["services"])


def start_quietly(call: Call) -> None:
    """Start Holdfast and its services without a word, for who speaks another language."""
    check_there_is_something(call)
    trust.check(call)
    try:
        launch(call, lambda: call.ask("up", **_fields(call, is_detached=False)))
    finally:
        call.close()


def launch(call: Call, ask: Callable[[], dict[str, Any]]) -> tuple[Launched, dict[str, Any]]:
    """Have a Holdfast, and ask it; one that was started here for nothing is ended again."""
    try:
        return _launch(call, ask)
    except NoDaemon:
        raise
    except (HoldfastError, KeyboardInterrupt) as error:
        _undo(call, is_interrupted=isinstance(error, KeyboardInterrupt))
        raise


def _launch(call: Call, ask: Callable[[], dict[str, Any]]) -> tuple[Launched, dict[str, Any]]:
    """One that is on its way down is waited for, and another started."""
    is_first, is_again = True, False
    while True:
        launched = ensure_running(call.places, call.environ)
        if not is_first and launched.keeper is None:
            launched.keeper = own_keeper(call.places)  # of an earlier turn
        is_first = False
        call.use(launched.connection)
        try:
            return launched, ask()
        except ShuttingDown as error:
            call.note(f"{error.message}; it is started again when that is done")
            _await_end(call, launched.connection)
        except SupervisorAway:
            raise
        except NoDaemon as error:
            if isinstance(error, ConnectionLost) and not _is_down(call):
                raise  # its supervisor died, and may have begun what was asked
            # What it had begun before a shutdown, it would have answered: we came at its very end.
            if is_again:
                raise Failed("Holdfast was shut down again and again", error.hint) from error
            is_again = True


def _is_down(call: Call) -> bool:
    from holdfast.cli.down import LAST_STEPS_SECONDS, is_gone

    return is_gone(call.places.state, LAST_STEPS_SECONDS)


def _await_end(call: Call, connection: Connection) -> None:
    """Its supervisor hangs up when everything is stopped."""
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
    """The caller's environment, as far as it can be told: JSON takes only real text."""
    told: dict[str, str] = {}
    for name, value in call.environ.items():
        if name == "HOLDFAST_STATE_DIR":
            # Ours: a Holdfast that a service starts for itself has a place of its own.
            continue
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            call.note(f"the variable {name!a} is not UTF-8 and is left out")
            continue
        told[name] = value
    return told


def given_settings(call: Call) -> dict[str, str]:
    """Those of the command line, which beat the configuration's."""
    settings: dict[str, str] = {
        name: str(call.options[name])
        for name in ("log_level", "log_format", "port", "http_port")
        if name in call.options
    }
    if call.options.get("no_http"):
        settings["http"] = "false"
    return settings


def _ask(call: Call, fields: dict[str, Any]) -> dict[str, Any]:
    if not fields["wait"]:
        return call.ask("up", **fields)
    from holdfast.cli.terminal.progress import Progress

    return Progress(call).ask("up", **fields)


def check_there_is_something(call: Call, *, only_declared: bool = False) -> None:
    """Something is declared; or an earlier Holdfast had something, if that counts."""
    places = call.places
    named = places.config or os.path.join(places.project, CONFIG_NAMES[0])
    if os.path.isdir(named):
        raise ConfigError(f"{named} is a folder", "a configuration is a file: rename the folder")
    if places.config:
        if os.path.exists(places.config) and not os.path.isfile(places.config):
            raise ConfigError(f"{places.config} is no regular file", "name one with -c")
        if not os.path.isfile(places.config):
            raise ConfigError(f"{places.config}: no such file", how_to_write(places.config))
        return
    if call.environ.get("SUPERVISOR_TARGET_CMD"):
        return
    if not only_declared and os.path.exists(os.path.join(places.state, "holdfast.db")):
        return
    raise ConfigError(
        f"no holdfast.yaml in {places.project} or above it",
        "`holdfast init` writes one; `holdfast run -- COMMAND` needs none",
    )


def tell_unread(call: Call, config: str | None) -> None:
    """Which of several configurations is read, unless that was said by who calls."""
    variables = ("HOLDFAST_CONFIG", "MAGICTUNNEL_CONFIG")
    if call.options.get("config") or any(map(call.environ.get, variables)) or not config:
        return
    if others := unread_beside(config):
        verb = "is" if len(others) == 1 else "are"
        call.note(f"{config} is read; {' and '.join(others)} beside it {verb} not")


def _undo(call: Call, *, is_interrupted: bool) -> None:
    """A Holdfast that this call started and that has nothing to hold is ended again."""
    from holdfast.cli.down import Ends, shut_down

    if own_keeper(call.places) is None:
        return
    try:
        if not is_interrupted and any(it["pid"] for it in call.ask("status")["services"].values()):
            return  # somebody else has joined it since
        shut_down(call, Ends(), keep_running=False, now=False)
    except HoldfastError as error:
        call.note(f"and it could not be ended again: {error.message}")


def _tell(call: Call, result: dict[str, Any]) -> int:
    services: dict[str, dict[str, Any]] = result["services"]
    from holdfast.cli.services import describe, has_failed

    failed = has_failed(call, services)
    if call.is_json:
        call.emit(result)
        return int(failed)
    if not services:
        call.say("nothing to start")
    for name, outcome in services.items():
        for line in describe(call, name, outcome):
            call.say(line)
    _tell_changes(call, result)
    _tell_doors(call)
    return int(failed)


def _tell_waiting(call: Call, result: dict[str, Any]) -> None:
    if call.is_json:
        return
    for name, outcome in result["services"].items():
        if outcome["outcome"] == "waiting":
            call.note(f"{name}: {outcome.get('reason')}")


def _tell_doors(call: Call) -> None:
    """Only what is not as usual: a port that others have, a certificate to compare."""
    supervisor: dict[str, Any] = call.ask("status").get("supervisor") or {}
    for name, note in (supervisor.get("door_notes") or {}).items():
        where = (supervisor.get("doors") or {}).get(name)
        call.note(f"{name} is at {where}: {note}" if where else f"{name} is closed: {note}")
    if fingerprint := supervisor.get("fingerprint"):
        call.note(f"certificate of HTTPS: SHA-256 {fingerprint}")


def _tell_changes(call: Call, result: dict[str, Any]) -> None:
    if call.is_json:
        return
    for name in result.get("stays_stopped") or ():
        call.note(f"{name} stays stopped, as it was; holdfast start {name} starts it")
    changed, removed = result.get("changed") or [], result.get("removed") or []
    for name in changed:
        call.note(f"{name} runs with an older declaration")
    for name in removed:
        call.note(f"{name} is no longer declared")
    if changed or removed:
        call.note("what runs is left alone; holdfast reload applies the changes")
