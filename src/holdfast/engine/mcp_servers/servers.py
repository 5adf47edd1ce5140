"""MCP servers: services like any other, plus what makes them servers of tools.

A runner keeps each process, as it keeps every service. Here is the rest: a server is started when
it is needed and stopped when it is idle, its tools are listed before it counts as started, its
calls are carried to their end, and a session has an instance of its own where the configuration
says so. The gate speaks with the servers; what it has to do goes to it by `gate_work`, and what it
finds out comes back by `report`. Nothing here changes the state of a service but through its
runner.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.mcp_servers.catalogues import Catalogue, CatalogueStore
from holdfast.adapters.mcp_servers.logins import LoginStore
from holdfast.adapters.own_log import logger
from holdfast.adapters.probes import Finding
from holdfast.engine.mcp_servers.calls import Answered, Calls, Interrupted, OpenCall
from holdfast.engine.mcp_servers.gate_work import GateWork, Item
from holdfast.engine.mcp_servers.lending import Lender
from holdfast.engine.mcp_servers.logins import Logins
from holdfast.engine.mcp_servers.registry import OfferedTool, Registry
from holdfast.engine.roster import Roster
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.environment import PendingCall, RunnerEnvironment
from holdfast.engine.runner.observers import MonitoredRun, RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.engine.sessions.ownership import Ownership
from holdfast.rules.mcp_servers.pins import Sighting
from holdfast.rules.mcp_servers.repeating import Interruption, Step, next_step
from holdfast.system import deadlines
from holdfast.vocabulary.errors import (
    Failed,
    HoldfastError,
    OutcomeUnknown,
    Refused,
    TimedOut,
    TooManyRequests,
)
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.mcp_servers import McpServerInfo, ReportMcpServer
from holdfast.vocabulary.quantities import format_duration
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.specs.mcp_servers import McpServerSpec
from holdfast.vocabulary.specs.settings import Settings
from holdfast.vocabulary.states import ALIVE, State

FAILED_SECONDS = 60.0
"""A server that has failed is started by a call again after this time."""
MOST_WAITING = 64
"""Calls that may wait for one server beyond those that it is given at once."""
MOST_OF_ONE = 32
"""Of these, how many may be of one account, so that nobody uses up the places of all."""
LOST_SECONDS = 3.0
"""After the end of a run its calls are lost, also if the gate does not say so."""
EXIT_SECONDS = 2.0
"""How long a call waits to learn how its server ended."""
SLOW_SECONDS = 3.0
MOST_REFUSALS = 2
"""How often a call is tried again that a remote server did not take."""
_REMOTE = "remote-"
_log = logger("mcp_servers")


class LiveServer:
    """What is known of the live run of a server."""

    __slots__ = (
        *("handshake", "is_listed", "is_slow", "last_used", "needs_login", "reason"),
        *("run_id", "timer"),
    )

    def __init__(self, run_id: str, now: float) -> None:
        self.run_id = run_id
        self.is_listed = False
        """Whether it has answered the handshake and told its tools."""
        self.handshake: dict[str, Any] | None = None
        self.reason = ""
        """Why it did not answer, as the gate says."""
        self.needs_login = False
        self.is_slow = False
        self.last_used = now
        self.timer: PendingCall | None = None


class McpServers(RunObserver):
    """The servers of one Holdfast."""

    def __init__(
        self,
        environment: RunnerEnvironment,
        roster: Roster,
        link: KeeperLink,
        store: CatalogueStore,
        logins: LoginStore,
        lender: Lender,
        ownership: Ownership,
    ) -> None:
        self._environment = environment
        self._roster = roster
        self._link = link
        self._lender = lender
        self._ownership = ownership
        self.registry = Registry(store, self._on_sighting)
        self.calls = Calls(environment.keeper, environment.clock)
        self.work = GateWork()
        self.logins = Logins(logins, self.work)
        self._live: dict[str, LiveServer] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._waiting: dict[str, int] = {}
        self._shares: Counter[tuple[str, str]] = Counter()
        """The same by service and account."""
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._probes: dict[str, asyncio.Future[Finding]] = {}
        self._changes: list[asyncio.Future[None]] = []
        self.on_sighting: Callable[[str, Sighting, Catalogue], None] = lambda *_: None
        """Called when a server told other definitions than before."""

    # The configuration

    def use(self, settings: Settings) -> None:
        """Use the servers of this configuration."""
        if dict(settings.mcp_servers) == self.registry.specs:
            return
        self.registry.use(settings.mcp_servers)
        self._turns.clear()
        self._use_remote()
        self.tell_changed()
        self._environment.call_later(0, self._list_unknown)

    def restore(self, kept: Mapping[str, str]) -> None:
        """Go on with the calls of an earlier supervisor."""
        self.calls.restore(kept)

    def tell_changed(self) -> None:
        """Other tools are offered."""
        self.work.send({"do": "changed"})

    def tell_approved(self, server: str, tools: list[str]) -> None:
        """Announce that these tools are offered by their new definitions."""
        self._environment.recorder.event(EventKind.MCP_TOOLS_APPROVED, server, tools=tools)
        self.tell_changed()

    def close(self) -> None:
        """Stop lending: this supervisor ends."""
        self._lender.close()

    def spec_of(self, service: str) -> McpServerSpec | None:
        """Return the server that this service runs, if it runs one."""
        runner = self._roster.runners.get(service)
        if runner is None:
            return self.registry.specs.get(service)
        spec = runner.declaration.spec
        if spec.kind != "mcp_server":
            return None
        return self.registry.specs.get(spec.template or spec.name)

    def _use_remote(self) -> None:
        """Know the servers that others run: they have no process, and live as long as we ask."""
        now = self._environment.clock.monotonic()
        for name, live in list(self._live.items()):
            is_gone = live.run_id.startswith(_REMOTE) and live.run_id != self._remote_id(name)
            if is_gone:
                del self._live[name]
                self.work.send({"do": "detach", "service": name, "run_id": live.run_id})
        for name, spec in self.registry.specs.items():
            if spec.transport == "remote" and name not in self._live:
                self._live[name] = LiveServer(self._remote_id(name), now)
                self._attach(name)

    def _remote_id(self, name: str) -> str:
        """Return what stands for a run of a remote server: another address is another run."""
        spec = self.registry.specs.get(name)
        if spec is None or spec.transport != "remote":
            return ""
        text = msgspec.json.encode((spec.url, sorted(spec.headers.items())))
        return _REMOTE + hashlib.sha256(text).hexdigest()[:16]

    def _list_unknown(self) -> None:
        """Start the servers of which nothing is known yet, so that their tools can be listed."""
        if not self.work.is_present:
            return
        for name in self.registry.specs:
            runner = self._roster.runners.get(name)
            if runner is None or self.registry.is_known(name):
                continue
            is_at_rest = runner.state in (State.PENDING, State.STOPPED, State.EXITED)
            is_meant = runner.declaration.spec.enabled and not runner.stopped_by_hand
            if is_at_rest and is_meant and not runner.is_retiring:
                self._start(runner, "its tools are not known yet")

    def _start(self, runner: Runner, because: str) -> None:
        self._environment.recorder.event(
            EventKind.REQUESTED, runner.name, runner.last_run_id, request="start", because=because
        )
        self._roster.start_one(runner)

    # What happens to runs

    def run_began(self, runner: Runner) -> None:
        if self.spec_of(runner.name) is None or runner.run is None:
            return
        now = self._environment.clock.monotonic()
        self._live[runner.name] = live = LiveServer(runner.run.run_id, now)
        kept = self._link.kept.get(keeper_memory.mcp_handshake(runner.name))
        if kept is not None:
            told = msgspec.json.decode(kept)
            if told.get("run_id") == live.run_id:
                live.handshake, live.is_listed = told.get("handshake"), True
        self._attach(runner.name)
        self._watch_idle(runner.name)
        self._changed()

    def run_over(self, runner: Runner) -> None:
        live = self._live.pop(runner.name, None)
        if live is None:
            return
        if live.timer is not None:
            live.timer.cancel()
        self._link.keep(keeper_memory.mcp_handshake(runner.name), None)
        self.work.send({"do": "detach", "service": runner.name, "run_id": live.run_id})
        interrupt = partial(self.calls.interrupt, Interruption.SERVER_DIED, live.run_id)
        # The gate first reads to the end what the server has said.
        self._environment.call_later(LOST_SECONDS if self.work.is_present else 0, interrupt)
        self._changed()

    def changed(self, runner: Runner) -> None:
        spec = runner.declaration.spec
        if spec.kind != "mcp_server":
            return
        self._changed()
        is_own = spec.template is not None
        if is_own and runner.run is None and runner.state in (State.STOPPED, State.FAILED):
            self._environment.call_later(0, partial(self._forget_instance, runner.name))

    def removed(self, runner: Runner) -> None:
        self._listeners.pop(runner.name, None)
        self._turns.pop(runner.name, None)

    def _attach(self, service: str) -> None:
        """Let the gate speak with a live server."""
        live, spec = self._live.get(service), self.spec_of(service)
        if live is None or spec is None or not self.work.is_present:
            return
        item: Item = {
            "do": "attach",
            "service": service,
            "server": spec.name,
            "run_id": live.run_id,
            "transport": spec.transport,
            "handshake": live.handshake if spec.transport == "stdio" else None,
            "roots": list(spec.roots),
            "sampling": spec.sampling,
            "seconds": spec.start_timeout,
        }
        if spec.transport == "stdio":
            item |= {"socket": self._lender.path, "ticket": self._lender.ticket(live.run_id)}
        else:
            item |= {"url": self._url_of(service, spec), "headers": spec.headers}
        if spec.transport == "remote":
            item["login"] = self.logins.of(spec.name, spec.url)
            if spec.auth == "oauth" and item["login"] is None:
                self._on_login_needed(service, live, "it needs a login")
                return
        self.work.send(item)

    def attach_again(self, server: str) -> None:
        """Speak anew with a remote server, because its login is another one."""
        live = self._live.get(server)
        if live is not None:
            live.is_listed, live.needs_login, live.reason = False, False, ""
            self.work.send({"do": "detach", "service": server, "run_id": live.run_id})
            self._attach(server)

    def _on_login_needed(self, service: str, live: LiveServer, why: str) -> None:
        live.is_listed, live.needs_login = False, True
        live.reason = f"{why}: `holdfast mcp login {service}`"
        self._tell(service)
        self._changed()

    def _url_of(self, service: str, spec: McpServerSpec) -> str:
        if spec.url is not None:
            return spec.url
        ports = self._roster.runners[service].ports or {}
        return f"http://127.0.0.1:{ports.get('port', 0)}{spec.path}"

    # The gate

    def serve(
        self, attached: Mapping[str, str], calls: list[str]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """What a gate follows; `attached` and `calls` are what it has already."""
        return self.work.follow(partial(self._on_present, dict(attached), frozenset(calls)))

    def _on_present(self, attached: Mapping[str, str], calls: frozenset[str]) -> None:
        for service, run_id in attached.items():
            live = self._live.get(service)
            if live is None or live.run_id != run_id:
                self.work.send({"do": "detach", "service": service, "run_id": run_id})
        for service, live in self._live.items():
            if attached.get(service) != live.run_id or not live.is_listed:
                self._attach(service)
        for call in list(self.calls.open.values()):
            if call.sent is not None and call.identity not in calls:
                self.calls.report(call.identity, Interrupted(Interruption.GATE_DIED))
        self._changed()
        self._list_unknown()

    async def report(self, said: ReportMcpServer, in_thread: Callable[..., Awaitable[Any]]) -> None:
        """Take what the gate found out."""
        live = self._live.get(said.service)
        match said.kind:
            case "called" if said.call is not None:
                self.calls.report(said.call, Answered(said.result, said.is_error, said.bytes))
            case "not_sent" | "lost" if said.call is not None:
                is_lost = said.kind == "lost"
                why = Interruption.SERVER_DIED if is_lost else Interruption.NOT_SENT
                self.calls.report(said.call, Interrupted(why, said.reason))
            case "listed" if live is not None and live.run_id == said.run_id:
                await self._on_listed(said, live, in_thread)
            case "probed" if live is not None and live.run_id == said.run_id:
                self._on_probed(said)
            case "asks" if live is not None:
                # Its questions name no call, so from now on it has one at a time.
                self._turns[said.service] = asyncio.Semaphore(1)
            case "login" | "login_step":
                await in_thread(self.logins.take, said)
            case "needs_login" if live is not None and live.run_id == said.run_id:
                self._on_login_needed(said.service, live, said.reason)
            case "failed" if live is not None and live.run_id == said.run_id:
                live.reason, live.is_listed = said.reason, False
                self._tell(said.service)
                self._changed()
            case _:
                pass  # about a run that is over

    async def _on_listed(
        self,
        said: ReportMcpServer,
        live: LiveServer,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        spec = self.spec_of(said.service)
        if spec is None or said.listing is None:
            return
        catalogue, sighting = await in_thread(self.registry.examine, spec.name, said.listing)
        live.handshake = said.listing.get("handshake") or {}
        live.is_listed, live.needs_login, live.reason = True, False, ""
        kept = {"run_id": live.run_id, "handshake": live.handshake}
        self._link.keep(
            keeper_memory.mcp_handshake(said.service), msgspec.json.encode(kept).decode()
        )
        if self.registry.take(spec.name, catalogue, sighting):
            self.tell_changed()
        self._tell(said.service)
        self._changed()

    def _on_sighting(self, server: str, sighting: Sighting, catalogue: Catalogue) -> None:
        names: dict[str, list[str]] = {"gone": list(sighting.gone)}
        for name, held in sighting.held.items():
            names.setdefault(held.change, []).append(name)
        facts: dict[str, Any] = {kind: found for kind, found in names.items() if found}
        self._environment.recorder.event(EventKind.MCP_TOOLS_CHANGED, server, **facts)
        self.on_sighting(server, sighting, catalogue)

    # Health

    def is_listed(self, run: MonitoredRun) -> Finding:
        """Whether the live run of a server has told its tools."""
        live = self._live.get(run.name)
        if live is not None and live.is_listed:
            return Finding(True, "it has told its tools")
        if not self.work.is_present:
            return Finding(False, "the gate that asks it is not there yet")
        why = live.reason if live is not None else ""
        return Finding(False, why or "it has not told its tools yet")

    def when_told(self, service: str, call: Callable[[], None]) -> Callable[[], None]:
        """Call this when something is known of the server's start; returns how to stop it."""
        found = self._listeners.setdefault(service, [])
        found.append(call)
        return lambda: found.remove(call) if call in found else None

    def _tell(self, service: str) -> None:
        for listener in list(self._listeners.get(service, ())):
            listener()

    async def probe(self, run: MonitoredRun) -> Finding:
        """Ask the gate whether the server still answers."""
        live = self._live.get(run.name)
        if live is None:
            return Finding(False, "it does not run")
        future: asyncio.Future[Finding] = asyncio.get_running_loop().create_future()
        item: Item = {"do": "probe", "service": run.name, "run_id": live.run_id}
        if not self.work.send(item):
            return Finding(True, "not asked: the gate is not there")
        self._probes[run.name] = future
        began = self._environment.clock.monotonic()
        try:
            finding = await future
        finally:
            self._probes.pop(run.name, None)
        live.is_slow = self._environment.clock.monotonic() - began > SLOW_SECONDS
        return finding

    def _on_probed(self, said: ReportMcpServer) -> None:
        future = self._probes.get(said.service)
        if future is not None and not future.done():
            reason = said.reason or ("no answer" if said.is_error else "it answers")
            future.set_result(Finding(not said.is_error, reason))

    # Calls

    async def call(
        self,
        tool: OfferedTool,
        arguments: dict[str, Any],
        identity: str,
        *,
        account: str = "",
        owner: Owner | None = None,
        asked: str | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> tuple[Answered, OpenCall]:
        """Have a tool called; returns the answer, or raises what became of the call.

        `account` is who asks, and `owner` the session of it. `asked` is the id by which the gate
        itself waits for it. `check` raises if the call may not be sent any more, when at last
        it could be.
        """
        spec = self.registry.specs[tool.server]
        clock = self._environment.clock
        service = self._service_for(spec, owner)
        if self._waiting.get(service, 0) >= spec.concurrency + MOST_WAITING:
            raise TooManyRequests(
                f"{MOST_WAITING} calls wait for {service} already", "try again later"
            )
        share = (service, account)
        if self._shares[share] >= spec.concurrency + MOST_OF_ONE:
            raise TooManyRequests(
                f"{MOST_OF_ONE} calls of yours wait for {service} already", "await some first"
            )
        tally, began = self.calls.tally(spec.name), clock.monotonic()
        deadline = began + spec.call_timeout
        call = self.calls.begin(identity)
        if call.is_carried:
            raise Refused("this call is under way already", "give each call its own id")
        call.is_carried = True
        tally.calls += 1
        tally.under_way += 1
        tally.last_call = clock.time()
        self._waiting[service] = self._waiting.get(service, 0) + 1
        self._shares[share] += 1
        turns = self._turns.setdefault(service, asyncio.Semaphore(spec.concurrency))
        has_turn, is_over = False, True
        try:
            await self._within(turns.acquire(), deadline, service)
            has_turn = True
            answered = await self._carry(
                call, spec, service, tool, arguments, deadline, asked, check
            )
            call.milliseconds = (clock.monotonic() - began) * 1000
            tally.failed += answered.is_error
            return answered, call
        except asyncio.CancelledError:
            # Its caller hung up, or this supervisor ends: whoever asks again goes on with it.
            call.is_carried, is_over = False, call.sent is None
            raise
        except OutcomeUnknown:
            tally.unknown += 1
            raise
        except HoldfastError:
            tally.failed += 1
            raise
        finally:
            if has_turn:
                turns.release()
            self._waiting[service] -= 1
            self._shares[share] -= 1
            if not self._shares[share]:
                del self._shares[share]
            tally.under_way -= 1
            tally.over((clock.monotonic() - began) * 1000)
            if is_over:
                self.calls.end(call)
            self._watch_idle(service)

    async def _carry(
        self,
        call: OpenCall,
        spec: McpServerSpec,
        service: str,
        tool: OfferedTool,
        arguments: dict[str, Any],
        deadline: float,
        asked: str | None,
        check: Callable[[], None],
    ) -> Answered:
        clock = self._environment.clock
        # A call that was sent by an earlier supervisor is not sent again: its answer may come.
        step: Step | None = Step.SEND if call.sent is None else None
        refusals = 0
        while True:
            if step is Step.SEND:
                run_id = await self._ready(service, deadline)
                if call.sent is None:
                    check()
                self.calls.note_sent(call, service, run_id, tool.name)
            if step is not None and call.sent is not None:
                self.work.send(
                    {
                        "do": "call" if step is Step.SEND else "await",
                        "call": call.identity,
                        "wire": call.sent.wire,
                        "service": service,
                        "run_id": call.sent.run_id,
                        "tool": tool.tool,
                        "arguments": arguments if step is Step.SEND else {},
                        "asked": asked,
                    }
                )
            try:
                left = max(0.0, deadline - clock.monotonic())
                report = await deadlines.wait_for(call.next_report(), left)
            except TimeoutError:
                report = Interrupted(Interruption.LATE)
            if isinstance(report, Answered):
                return report
            step = self._after(report, call, tool, spec)
            if report.why is Interruption.NOT_SENT and call.sent is not None:
                refusals += 1
                if spec.transport == "remote" and refusals > MOST_REFUSALS:
                    raise Failed(f"{service} was not asked: {report.reason}", "nothing was sent")
                # The end of that run may not be known here yet.
                await self._how_it_ended(service, call.sent.run_id)
            if step is Step.UNKNOWN:
                raise await self._unknown(report, call, spec, service, tool)

    def _after(
        self, report: Interrupted, call: OpenCall, tool: OfferedTool, spec: McpServerSpec
    ) -> Step:
        assert call.sent is not None
        why, run_id = report.why, call.sent.run_id
        is_live = self._is_live(run_id)
        if why is Interruption.GATE_DIED and (not is_live or spec.transport != "stdio"):
            # Over HTTP the answer went to the gate that is gone.
            why = Interruption.SERVER_DIED
        if why is Interruption.SERVER_DIED:
            self.calls.note_death(call)
        elif why is Interruption.NOT_SENT:
            self.calls.note_not_sent(call)
        return next_step(
            why, may_repeat=tool.may_repeat, deaths=call.sent.deaths, sends=call.sent.sends
        )

    def _is_live(self, run_id: str) -> bool:
        return any(live.run_id == run_id for live in self._live.values())

    async def _unknown(
        self,
        report: Interrupted,
        call: OpenCall,
        spec: McpServerSpec,
        service: str,
        tool: OfferedTool,
    ) -> HoldfastError:
        assert call.sent is not None
        facts = {"service": service, "run_id": call.sent.run_id, "tool": tool.name}
        if report.why is Interruption.LATE:
            self.work.send({"do": "cancel", "call": call.identity, "service": service})
            message = f"{tool.name} did not answer within {format_duration(spec.call_timeout)}"
            if tool.only_reads:
                return TimedOut(message, "it only reads; try again", facts)
            hint = "look how things are now, then call it again if it is still needed"
            return OutcomeUnknown(f"{message}; whether it was done is unknown", hint, facts)
        has_ended = spec.transport != "remote" and await self._await_end(service, call.sent.run_id)
        if spec.transport == "remote" or (not has_ended and self._is_live(call.sent.run_id)):
            why = f" ({report.reason})" if report.reason else ""
            return OutcomeUnknown(
                f"the connection to {service} was lost during the call{why}; whether it was done "
                "is unknown",
                "look how things are now, then call it again if it is still needed",
                facts,
            )
        how = await self._how_it_ended(service, call.sent.run_id)
        times = " again" if call.sent.deaths > 1 else ""
        return OutcomeUnknown(
            f"{service} ended{times} during the call ({how}); whether it was done is unknown",
            "look how things are now, then call it again if it is still needed",
            {**facts, "is_dead": True},
        )

    async def _how_it_ended(self, service: str, run_id: str) -> str:
        """Return how a run ended, in words; it may not be reaped yet."""
        await self._await_end(service, run_id)
        runner = self._roster.runners.get(service)
        if runner is None:
            return "it is not there any more"
        last = runner.last_exit
        if last.signal is not None:
            return last.signal
        return f"exit {last.code}" if last.code is not None else "how is unknown"

    async def _await_end(self, service: str, run_id: str) -> bool:
        """Wait a moment for the end of a run: its connection is lost before it is reaped. Return
        whether it has ended."""
        clock = self._environment.clock
        deadline = clock.monotonic() + EXIT_SECONDS
        while (runner := self._roster.runners.get(service)) is not None:
            run = runner.run
            if run is None or run.run_id != run_id or run.main_gone:
                break
            try:
                await deadlines.wait_for(
                    self._next_change(runner), max(0.0, deadline - clock.monotonic())
                )
            except TimeoutError:
                return False
        return True

    def _service_for(self, spec: McpServerSpec, owner: Owner | None) -> str:
        """Return the service that is asked: the shared one, or the one of this session."""
        if spec.scope == "shared" or owner is None or spec.transport == "remote":
            return spec.name
        instances = self.instances_of(spec.name)
        for runner in instances:
            if runner.owner is not None and runner.owner.session == owner.session:
                return runner.name
        if len(instances) >= spec.max_instances:
            raise Refused(
                f"{spec.name} runs for {len(instances)} sessions already",
                f"max_instances is {spec.max_instances}; `holdfast sessions` lists them",
            )
        taken = {runner.declaration.spec.index for runner in instances}
        index = next(n for n in range(1, spec.max_instances + 1) if n not in taken)
        shared = self._roster.runners[spec.name].declaration
        own = msgspec.structs.replace(
            shared.spec, name=f"{spec.name}@{index}", template=spec.name, index=index, origin="run"
        )
        runner = self._roster.declare(Declaration(own, shared.environ, shared.environ_key))[0]
        self._ownership.set(runner, owner)
        return runner.name

    def instances_of(self, server: str) -> list[Runner]:
        """Return the services that run a server for single sessions."""
        return [
            runner
            for runner in self._roster.runners.values()
            if runner.declaration.spec.kind == "mcp_server"
            and runner.declaration.spec.template == server
        ]

    def _forget_instance(self, name: str) -> None:
        runner = self._roster.runners.get(name)
        is_over = runner is not None and runner.state in (State.STOPPED, State.FAILED)
        if runner is not None and is_over and not runner.has_processes:
            self._roster.remove(name)
            self._roster.forget_environments()

    async def _ready(self, service: str, deadline: float) -> str:
        """Return the run of a server that can be asked; starts it if need be."""
        while True:
            runner = self._roster.runners.get(service)
            if runner is None and service in self._live:
                return await self._ready_remote(service, deadline)
            if runner is None:
                raise Failed(f"{service} is not there any more", "`holdfast mcp servers` lists all")
            live, run = self._live.get(service), runner.run
            is_up = live is not None and run is not None and live.run_id == run.run_id
            if live is not None and is_up and live.is_listed and self.work.is_present:
                return live.run_id
            self._start_if_needed(runner)
            await self._within(self._next_change(runner), deadline, service)

    async def _ready_remote(self, service: str, deadline: float) -> str:
        """Return what stands for the run of a remote server, once it has answered."""
        is_asked = False
        while True:
            live = self._live.get(service)
            if live is None:
                raise Failed(f"{service} is not there any more", "`holdfast mcp servers` lists all")
            if live.is_listed and self.work.is_present:
                return live.run_id
            if live.reason and is_asked:
                raise Failed(f"{service} did not answer: {live.reason}", "nothing was sent")
            if not is_asked and self.work.is_present:
                is_asked, live.reason = True, ""
                self._attach(service)
            await self._within(self._any_change(), deadline, service)

    async def _any_change(self) -> None:
        """Wait until something else is known of any server."""
        own: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(own)
        try:
            await own
        finally:
            if own in self._changes:
                self._changes.remove(own)

    def _start_if_needed(self, runner: Runner) -> None:
        if runner.is_retiring:
            raise Failed("Holdfast is being shut down", "`holdfast up`, when it is down")
        if runner.state in ALIVE or runner.state in (State.BACKOFF, State.STOPPING):
            return
        if not runner.declaration.spec.enabled:
            raise Failed(f"{runner.name} is off (`enabled: false`)", "change the configuration")
        if runner.state is State.FAILED:
            if runner.seconds_in_state < FAILED_SECONDS:
                raise Failed(
                    f"{runner.name} has failed: {runner.reason or 'the reason is unknown'}",
                    f"nothing was sent; `holdfast explain {runner.name}` tells more, "
                    f"`holdfast restart {runner.name}` tries again",
                    {"service": runner.name},
                )
        elif runner.stopped_by_hand:
            raise Failed(
                f"{runner.name} was stopped by a user",
                f"nothing was sent; `holdfast start {runner.name}` starts it",
            )
        if runner.waiting_for:
            return
        self._start(runner, "a tool of it was called")

    async def _within(self, work: Awaitable[Any], deadline: float, service: str) -> None:
        try:
            left = max(0.0, deadline - self._environment.clock.monotonic())
            await deadlines.wait_for(work, left)
        except TimeoutError:
            runner = self._roster.runners.get(service)
            state = runner.state.value if runner is not None else "gone"
            gate = "" if self.work.is_present else "; the gate is not there"
            raise TimedOut(
                f"{service} could not be asked in time (it is {state}{gate})",
                "nothing was sent; try again in a moment",
            ) from None

    async def _next_change(self, runner: Runner) -> None:
        """Wait for the next change of a server, or of what is known of any."""
        own: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append(own)
        change = runner.next_change()
        try:
            await asyncio.wait([own, change], return_when=asyncio.FIRST_COMPLETED)
        finally:
            own.cancel()
            change.cancel()
            if own in self._changes:
                self._changes.remove(own)

    def _changed(self) -> None:
        changes, self._changes = self._changes, []
        for future in changes:
            if not future.done():
                future.set_result(None)

    # Idle servers

    def _watch_idle(self, service: str) -> None:
        """Stop it when nobody has called it for long."""
        live, spec = self._live.get(service), self.spec_of(service)
        if live is None or spec is None or spec.idle_stop is None or spec.transport == "remote":
            return
        live.last_used = self._environment.clock.monotonic()
        if live.timer is None:
            look = partial(self._look_idle, service, live)
            live.timer = self._environment.call_later(spec.idle_stop, look)

    def _look_idle(self, service: str, live: LiveServer) -> None:
        spec, runner = self.spec_of(service), self._roster.runners.get(service)
        live.timer = None
        if self._live.get(service) is not live or spec is None or spec.idle_stop is None:
            return
        idle = self._environment.clock.monotonic() - live.last_used
        is_busy = bool(self._waiting.get(service)) or not live.is_listed
        if runner is None or is_busy or idle < spec.idle_stop - 0.001:
            left = spec.idle_stop if is_busy else max(0.01, spec.idle_stop - idle)
            look = partial(self._look_idle, service, live)
            live.timer = self._environment.call_later(left, look)
            return
        because = f"nobody called it for {format_duration(spec.idle_stop)}"
        self._environment.recorder.event(
            EventKind.REQUESTED, service, live.run_id, request="stop", because=because
        )
        runner.stop(because=because)

    # What others see

    def describe(self, server: str) -> McpServerInfo:
        """Return what a person wants to know of a server."""
        spec = self.registry.specs[server]
        catalogue, tally = self.registry.catalogue(server), self.calls.tally(server)
        runner = self._roster.runners.get(server)
        instances = [one.name for one in self.instances_of(server)]
        shown = runner
        if instances and (runner is None or runner.run is None):
            shown = self._roster.runners[instances[0]]
        notes: list[str] = []
        waiting = [one for one in catalogue.held.values() if not one.is_rejected]
        if shown is not None and shown.state in (State.STOPPED, State.PENDING):
            is_off = not shown.declaration.spec.enabled or shown.stopped_by_hand
            notes += [] if is_off else ["idle"]
        if any(live.is_slow for name, live in self._live.items() if self.spec_of(name) is spec):
            notes.append("degraded")
        if (live := self._live.get(server)) is not None and live.needs_login:
            notes.append("needs login")
        if waiting:
            notes.append(f"{len(waiting)} tools held")
        if not self.registry.is_known(server):
            notes.append("not listed yet")
        return McpServerInfo(
            name=server,
            transport=spec.transport,
            state=shown.state.value if shown is not None else self._remote_state(server),
            notes=notes,
            tools=len(self.registry.offered(server)),
            held=len(catalogue.held),
            denied=self.registry.denied(server),
            calls=tally.calls,
            failed_calls=tally.failed,
            unknown_calls=tally.unknown,
            under_way=tally.under_way,
            p50_ms=tally.p50,
            last_call=tally.last_call,
            version=catalogue.version,
            protocol=catalogue.protocol or None,
            reason=shown.reason if shown is not None else self._remote_reason(server),
            instances=instances,
        )

    def _remote_state(self, server: str) -> str:
        live = self._live.get(server)
        if live is None or live.reason:
            return State.FAILED.value
        state = State.RUNNING if live.is_listed else State.STARTING
        return str(state.value)

    def _remote_reason(self, server: str) -> str | None:
        live = self._live.get(server)
        return (live.reason or None) if live is not None else None
