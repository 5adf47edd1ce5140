"""The words about the keeper itself: facts, watches, memory, its supervisor and its end.

One function a word, as in `words`, which finds and answers them.
"""

from __future__ import annotations

from holdfast.keeper.memory import DESIRED
from holdfast.keeper.protocol.refusal import Refusal
from holdfast.keeper.upgrade import Upgrade, UpgradeError, own_package, own_prefix
from holdfast.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.protocol.connections import Connection
    from holdfast.keeper.protocol.wire import Message
    from holdfast.keeper.protocol.words import Words
    from holdfast.keeper.runs.run import Facts


def do_hello(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    wanted = message.get("role") or connection.role
    if wanted != connection.role:
        raise Refusal("refused", f"this connection cannot have the role {wanted}")
    facts = words.keeper.facts()
    if connection.role == "supervisor":
        facts["kept"] = words.keeper.memory.values
        facts["ended_unseen"] = words.keeper.children.ended_unseen()
    return facts


def do_list(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    is_brief = message.get("only") == "log_bytes"
    return words.keeper.recorded() if is_brief else words.keeper.facts()


def do_strays(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    """Runs of this state folder that live, but that no keeper told anybody about."""
    strays = words.keeper.children.strays
    return {
        "strays": [it.facts() for it in strays.unknown()],
        "doubts": strays.doubts,
        "marks": list(strays.unlisted_marks()),
    }


def do_end_rest(
    words: Words, connection: Connection, message: Message, fds: list[int]
) -> Facts | None:
    """End what a run left, of which nobody was told; answered when that is gone."""
    children, run_id = words.keeper.children, message["run_id"]
    main = processes.process(int(message["pid"])) if message.get("pid") else None
    if run_id in children.runs:
        raise Refusal("exists", f"a run {run_id} is here, and can be ended")
    if main is not None and main.is_alive and main.start_time == message.get("start_time"):
        raise Refusal("exists", f"process {main.pid} of run {run_id} lives")
    answer: Facts = {"id": message.get("id"), "ok": True}
    answer["pids"] = children.strays.end_rest(message, lambda: connection.send(answer))
    return None if answer["pids"] else answer


def do_stay_off(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    """A person's stop of a service, also of one that has ended: neither a supervisor that hangs
    nor the next one must undo it."""
    service, grace = str(message["service"]), float(message.get("grace") or 0.0)
    words.keeper.memory.keep({DESIRED + service: "stopped"})
    words.keeper.tell_supervisor({"notice": "end_asked", "service": service, "grace": grace})
    return {}


def do_tree(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    return {
        "processes": [
            {
                "pid": it.pid,
                "ppid": it.ppid,
                "name": it.name,
                "state": it.state,
                "start_time": it.start_time,
            }
            for it in words.run(message).tree.processes()
        ]
    }


def do_watch(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    if message.get("on", True):
        connection.watched.add(message["service"])
    else:
        connection.watched.discard(message["service"])
    words.keeper.update_watches()
    return {}


def do_hold(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    if len(fds) != 1:
        raise Refusal("bad_request", "hold takes exactly one descriptor")
    words.keeper.held.hold(str(message["name"]), fds.pop())
    return {}


def do_release(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    if not words.keeper.held.release(str(message["name"])):
        raise Refusal("not_found", f"no descriptor {message['name']} is held")
    return {}


def do_keep(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    """Nothing more than the `kept` that any request may bring."""
    return {}


def do_forget(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    words.keeper.journal.forget(message["run_ids"])
    for run_id in message["run_ids"]:
        words.keeper.children.records.forget(run_id)
    return {}


def do_prune(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    service = message["service"]
    if not isinstance(service, str) or "/" in service:
        raise Refusal("bad_request", f"{service!r} cannot name a service")
    logs = words.keeper.logs
    runs = words.keeper.children.runs.values()
    live = {run.number for run in runs if run.service == service}
    if message.get("all"):
        deleted, count = logs.forget(service, live)
    else:
        keep, before = message.get("keep_segments"), message.get("before")
        deleted, count = logs.prune(service, keep, before, live)
    return {"deleted_bytes": deleted, "segments": count}


def do_supervise(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    keeper = words.keeper
    if message["on"] and message.get("again"):
        if keeper.is_shutting_down or keeper.supervisor.state == "retiring":
            raise Refusal("busy", "the supervisor is being retired")
        keeper.supervisor.forget_failures()
        keeper.retire_and_relaunch()
    elif message["on"]:
        keeper.supervisor.forget_failures()
        keeper.supervisor.launch()
    else:
        keeper.supervisor.retire(keeper.tell_to_retire)
    return {"supervisor": keeper.supervisor.facts()}


def do_stand_by(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    """A supervisor that is replaced has finished; it stays until its successor is `ready`."""
    if connection is not words.keeper.link or words.keeper.supervisor.state != "retiring":
        raise Refusal("refused", "only a supervisor that is being replaced stands by")
    words.keeper.stand_by()
    return {}


def do_ready(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    """This supervisor has everything that it needs to take our place."""
    if connection is words.keeper.link:
        words.keeper.dismiss_standby()
    return {}


def do_upgrade(words: Words, connection: Connection, message: Message, fds: list[int]) -> None:
    keeper = words.keeper
    if words.upgrade is not None or keeper.is_shutting_down:
        raise Refusal("busy", "an upgrade or a shutdown is under way")
    attempt = Upgrade(
        keeper,
        message.get("argv_prefix") or own_prefix(),
        message.get("package") or own_package(),
        message.get("import_path") or [],
        words.on_upgrade_failed,
    )
    try:
        attempt.rehearse()
    except UpgradeError as error:
        raise Refusal("upgrade_failed", str(error)) from None
    words.upgrade = (connection, message.get("id"))


def do_noted(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    """The supervisor has taken `shutdown_requested` on itself."""
    words.keeper.end_requests.is_noted = True
    return {}


def do_shutdown(words: Words, connection: Connection, message: Message, fds: list[int]) -> Facts:
    grace, code = message.get("grace"), message.get("exit_code")
    keeper = words.keeper
    keeper.check_shutdown(grace, code)
    if message.get("abandon"):
        keeper.end_requests.abandon_supervisor()
    keeper.loop.at_turn_end(lambda: keeper.shutdown(grace, code))
    return {}


OWN_WORDS = {name[3:]: word for name, word in globals().items() if name.startswith("do_")}
