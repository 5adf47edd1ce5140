"""Processes that outlived both keeper and supervisor: recognised, then adopted or stopped.

The keeper checks their identity by the recorded pid, start time and boot. Only where one of these
was not recorded, `HOLDFAST_RUN_ID` in the environment must agree, because a program may overwrite
its environment. A process that fails the check is never touched. If it cannot be decided whether
a process is an earlier run of a service, that service is in doubt, and nothing is started beside
the process. If a run ended meanwhile, its exit is recorded as unknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.own_log import logger
from holdfast.adapters.store.state_tables import OpenRun
from holdfast.engine.roster import Roster
from holdfast.engine.runner.declaration import Declaration, log_settings, stop_settings, undeclared
from holdfast.engine.runner.runner import Runner
from holdfast.rules.lifecycle.restoring import Fate, fate_of_survivor
from holdfast.system import run_marks
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.names import OWN_NAMES
from holdfast.vocabulary.specs.services import ServiceSpec

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import (
        AdoptReply,
        AdoptRequest,
        EndRestRequest,
        ExitFacts,
        PredecessorRun,
        ProcessName,
        StraysReply,
    )

END_SECONDS = 2.0
_log = logger("survivors")
_WHY = "it ended while neither keeper nor supervisor was there"


class Survivors:
    """Settles runs that are open in the database and that the keeper does not have."""

    def __init__(self, roster: Roster, link: KeeperLink) -> None:
        self._roster = roster
        self._link = link
        self._has_looked = False
        self._undeclared: set[str] = set()
        self._strays: asyncio.Future[StraysReply] | None = None
        self._doubts: dict[str, str] = {}

    def look_ahead(self) -> None:
        """Ask for strays before they are needed, because the keeper takes a while to look."""
        self._strays = asyncio.ensure_future(self._link.ask({"do": "strays"}))

    async def settle(self, services: list[str]) -> list[str]:
        """Adopt, stop or close the open runs of these services. Returns the adopted services."""
        if self._doubts:
            # The processes in question may have ended since.
            self._has_looked, self._strays, self._doubts = False, None, {}
        await self._look_for_strays()
        adopted = set()
        for name in services:
            for run in sorted(self._roster.open_runs.pop(name, []), key=lambda run: -run.number):
                if await self._settle(name, run):
                    adopted.add(name)
            if name in self._undeclared:
                self._undeclared.discard(name)
                await self._settle_declared(self._roster.runners[name])
            self._roster.runners[name].set_doubt(self._doubts.get(name))
        return sorted(adopted)

    def dismiss_doubts(self, services: list[str]) -> None:
        """A person has decided that these services may be started."""
        for name in services:
            if (runner := self._roster.runners.get(name)) is not None:
                runner.set_doubt(None)

    async def settle_strangers(self) -> list[str]:
        """Adopt survivors of services that are not declared, or not yet, so that they are visible
        and can be stopped."""
        await self._look_for_strays()
        adopted = []
        for name in [name for name in self._roster.open_runs if name not in self._roster.runners]:
            for run in sorted(self._roster.open_runs.pop(name), key=lambda run: -run.number):
                answer = await self._adopt(run, spec := undeclared(name))
                if answer is None and name in self._doubts:
                    continue
                if answer is None:
                    self._roster.account_for_unknown([unknown_exit(run)], _WHY)
                    continue
                if name not in self._roster.runners:
                    self._roster.declare(Declaration(spec))
                if await self._take(self._roster.runners[name], run, answer):
                    self._undeclared.add(name)
                    adopted.append(name)
        return adopted

    async def end(self, run: OpenRun) -> bool:
        """End the rest of a run of our own. Returns whether it lived."""
        if await self._adopt(run, undeclared(run.service)) is None:
            return False
        await self._link.ask({"do": "end", "run_id": run.run_id, "grace": END_SECONDS})
        return True

    async def _look_for_strays(self) -> None:
        """Find runs that are not in the database, because they began just before keeper and
        supervisor died."""
        if self._has_looked:
            return
        self._has_looked = True
        try:
            answer = await (self._strays or self._link.ask({"do": "strays"}))
        except Failed as error:
            _log.info("no strays are looked for: %s", error)
            return
        for doubt in answer.get("doubts") or ():
            if not doubt["service"].startswith(OWN_NAMES):
                self._doubt(doubt["service"], doubt["processes"])
        strays = answer.get("strays") or []
        roster = self._roster
        rest = self._marked_rest(answer.get("marks") or ())
        for name, runs in roster.open_runs.items():
            # Without a start time the history does not identify it; the keeper's record may.
            roster.open_runs[name] = [
                run for run in runs if run.start_time or not _is_in(run, strays)
            ]
        known = {run.run_id for runs in roster.open_runs.values() for run in runs}
        for found in strays:
            name, run_id = found["service"], found["run_id"]
            runner, record = roster.runners.get(name), roster.records.get(name)
            last = runner or record
            if name.startswith(OWN_NAMES) or run_id in known:
                continue
            is_over = last is not None and last.accounted == run_id
            if is_over or not found["start_time"]:
                spec = self._spec_of(name)
                over: EndRestRequest = {"do": "end_rest", "run_id": run_id, "service": name}
                if is_over and last is not None:
                    over["number"] = last.number
                rest.append(self._end_rest(over, spec))
                continue
            number = found.get("number") or (last.number if last is not None else 0) + 1
            _log.warning("%s: process %d is not in the history", name, found["pid"])
            roster.open_runs.setdefault(name, []).append(
                OpenRun(
                    run_id,
                    name,
                    number,
                    found["pid"],
                    found["start_time"],
                    self._link.boot_id,
                    found["started_at"],
                )
            )
        await asyncio.gather(*rest)

    def _marked_rest(self, marks: Collection[int]) -> list[Coroutine[Any, Any, None]]:
        """End processes of a service's last run that only the mark of the run tells."""
        last = {name: record.accounted for name, record in self._roster.records.items()}
        last |= {name: runner.accounted for name, runner in self._roster.runners.items()}
        return [
            self._end_rest(
                {"do": "end_rest", "run_id": run_id, "service": name}, self._spec_of(name)
            )
            for name, run_id in last.items()
            if run_id and marks and run_marks.mark_of(run_id) in marks
        ]

    def _spec_of(self, name: str) -> ServiceSpec:
        runner = self._roster.runners.get(name)
        return runner.declaration.spec if runner is not None else undeclared(name)

    async def _settle(self, name: str, run: OpenRun) -> bool:
        runner = self._roster.runners[name]
        answer = await self._adopt(run, runner.declaration.spec)
        if answer is not None:
            return await self._take(runner, run, answer)
        if name in self._doubts:
            self._roster.open_runs.setdefault(name, []).append(run)
        elif runner.run is None or runner.run.run_id != run.run_id:
            runner.account(unknown_exit(run), _WHY)
        return False

    def _doubt(self, name: str, processes: list[ProcessName]) -> None:
        """Start nothing of this service, because one of these processes may be a run of it."""
        told = ", ".join(
            f"{process['pid']} ({process['name']})" if process.get("name") else str(process["pid"])
            for process in processes
        )
        pids = " ".join(str(process["pid"]) for process in processes)
        word = "process" if len(processes) == 1 else "one of the processes"
        self._doubts[name] = (
            f"{word} {told} may be a run of {name} from before Holdfast was killed; nothing is "
            f"started beside it. If it is, end it (kill {pids}) and run `holdfast up`; "
            f"if it is not, `holdfast start {name}` starts {name}"
        )
        _log.warning("%s: %s", name, self._doubts[name])

    async def _settle_declared(self, runner: Runner) -> None:
        """Stop an adopted survivor if its declaration, which is known now, says so."""
        is_survivor = runner.run is not None and runner.run.adopted
        if is_survivor and runner.declaration.spec.survivors == "stop":
            await runner.stop()

    async def _take(self, runner: Runner, run: OpenRun, answer: AdoptReply) -> bool:
        """Make it the run of its service, or end it. Returns whether it goes on."""
        if runner.run is not None:
            # A newer run lives already, and a service has only one.
            self._link.request({"do": "end", "run_id": run.run_id}, lambda _: None)
            return False
        spec, by_hand = runner.declaration.spec, runner.stopped_by_hand
        by_hand = by_hand and run.number <= runner.number
        is_started = runner.is_start_due and spec.origin != "adopted" and spec.schedule is None
        fate = fate_of_survivor(
            is_stop_wanted=spec.survivors == "stop",
            is_off=by_hand,
            is_ending=run.run_id == runner.ending_run,
            is_start_due=is_started,
        )
        runner.adopt(answer, is_survivor=True)
        self._roster.remember(runner)
        match fate:
            case Fate.RESTART:
                runner.restart(wait=False)
            case Fate.STOP:
                await runner.stop(by_hand=by_hand)
            case Fate.GO_ON:
                pass
        return fate is Fate.GO_ON

    async def _adopt(self, run: OpenRun, spec: ServiceSpec) -> AdoptReply | None:
        if not run.pid or not run.start_time:
            return None
        wanted: AdoptRequest = {
            "do": "adopt",
            "run_id": run.run_id,
            "service": run.service,
            "number": run.number,
            "pid": run.pid,
            "start_time": run.start_time,
            "boot_id": run.boot_id,
            "started_at": run.started_at,
            "age": max(0.0, time.time() - run.started_at),
            "cookie": True,
            "reopen": True,
            "log": log_settings(spec),
            "stop": stop_settings(spec),
        }
        try:
            return await self._link.ask(wanted)
        except Failed as error:
            if error.details.get("keeper_code") == "identity_unknown":
                self._doubt(run.service, [{"pid": run.pid, "name": ""}])
                return None
            _log.info("%s: run %d is not there any more: %s", run.service, run.number, error)
            await self._end_rest(
                {
                    "do": "end_rest",
                    "run_id": run.run_id,
                    "service": run.service,
                    "number": run.number,
                    "pid": run.pid,
                    "start_time": run.start_time,
                    "boot_id": run.boot_id,
                    "started_at": run.started_at,
                    "age": wanted["age"],
                },
                spec,
            )
            return None

    async def _end_rest(self, rest: EndRestRequest, spec: ServiceSpec) -> None:
        """End the rest of a run whose main process is gone: the next run must not meet it."""
        rest["log"], rest["stop"] = log_settings(spec), stop_settings(spec)
        try:
            answer = await self._link.ask(rest)
        except Failed as error:
            _log.info("%s: nothing more of it is ended: %s", spec.name, error)
            return
        if answer.get("pids"):
            _log.warning(
                "%s: processes that outlived a run of it were ended: %s", spec.name, answer["pids"]
            )


def _is_in(run: OpenRun, strays: list[PredecessorRun]) -> bool:
    return any(stray["run_id"] == run.run_id and stray["start_time"] for stray in strays)


def unknown_exit(run: OpenRun) -> ExitFacts:
    """The exit of a run that ended unseen."""
    return {
        "run_id": run.run_id,
        "service": run.service,
        "number": run.number,
        "pid": run.pid,
        "code": None,
        "signal": None,
        "unknown": True,
        "started_at": run.started_at,
        "ended_at": time.time(),
        "seconds": None,
        "empty": True,
    }
