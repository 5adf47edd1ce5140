"""One attempt of a job: its process, from the request to the keeper until no process is left.

The keeper ends the process by itself when its lease is not renewed, whatever has happened to us.
The run's id is stored with the claim before the process exists, so that any later supervisor finds
it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.adapters.keeper_link import KeeperLink, log_refusal
from holdfast.adapters.queue.store import StoredJob
from holdfast.engine.runner.declaration import Declaration, spawn_message
from holdfast.rules.jobs import AttemptEnd
from holdfast.vocabulary.names import OWN_NAMES
from holdfast.vocabulary.quantities import signal_name
from holdfast.vocabulary.specs.services import ServiceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.keeper.protocol.messages import ExitFacts, LeaseRequest, SpawnRequest

JOB_SERVICES = f"{OWN_NAMES}job-"
"""How the names begin under which the keeper runs and records jobs."""
LEASE_LOST = "its lease was not renewed in time, so its process was ended"


class Attempt:
    """A process of a job, or what is left of it."""

    def __init__(self, job: StoredJob, link: KeeperLink, loop: asyncio.AbstractEventLoop) -> None:
        assert job.run_id is not None
        assert job.token is not None
        self.job = job
        self.run_id = job.run_id
        self.token = job.token
        self.pid: int | None = None
        self.why_ended: str | None = None
        self.is_cancelled = False
        self.is_put_back = False
        """Whether it is ended because Holdfast stops, and is no attempt."""
        self.is_lost = False
        """Whether the store has given the job to somebody else."""
        self.exit: asyncio.Future[ExitFacts] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.settled: asyncio.Future[None] = loop.create_future()
        """Done when how it ended is stored."""
        self._link = link
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    async def start(
        self, spec: ServiceSpec, environ: Mapping[str, str], lease_seconds: float
    ) -> None:
        """Create its process; raises the keeper's refusal."""
        message = self._message(spec, environ, lease_seconds)
        self.pid = (await self._link.ask(message))["pid"]

    def _message(
        self, spec: ServiceSpec, environ: Mapping[str, str], lease_seconds: float
    ) -> SpawnRequest:
        job = self.job
        inherited = environ if spec.environment == "inherit" else {}
        env = {
            **inherited,
            **spec.env,
            **job.request.env,
            "HOLDFAST_JOB_ID": job.id,
            "HOLDFAST_JOB_TOKEN": self.token,
            "HOLDFAST_JOB_ATTEMPT": str(job.attempts),
        }
        spec = replace(spec, name=service_of(job.id), env=env, environment="clean")
        message = spawn_message(Declaration(spec), None, self.run_id, job.attempts)
        message["lease"] = {"seconds": lease_seconds, "kind": "job"}
        message["hidden"] = True
        return message

    def renew(self, lease_seconds: float) -> None:
        """Tell the keeper that the store has confirmed the claim."""
        message: LeaseRequest = {
            "do": "lease",
            "run_id": self.run_id,
            "seconds": lease_seconds,
            "kind": "job",
        }
        self._link.request(message, lambda reply: None)

    def keep(self) -> None:
        """Let it go on without a supervisor, because somebody asked for that."""
        message: LeaseRequest = {"do": "lease", "run_id": self.run_id, "seconds": None}
        self._link.request(message, log_refusal)

    def end_after(self, seconds: float, why: str) -> None:
        """End it when it has taken too long."""
        self._timer = self._loop.call_later(max(0.0, seconds), lambda: self.end(why))

    def end(self, why: str | None = None, grace: float | None = None) -> None:
        """End its whole tree."""
        if why is not None and self.why_ended is None and not self.exit.done():
            self.why_ended = why
        if grace is None:
            self._link.request({"do": "end", "run_id": self.run_id}, lambda reply: None)
        else:
            request_grace = max(0.0, grace)
            self._link.request(
                {"do": "end", "run_id": self.run_id, "grace": request_grace}, lambda reply: None
            )

    def on_exit(self, facts: ExitFacts) -> None:
        if not self.exit.done():
            self.exit.set_result(facts)
        if facts.get("empty", True):
            self.on_gone()

    def on_gone(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    async def over(self) -> AttemptEnd:
        """Wait until no process of it is left, and return how it ended."""
        try:
            facts = await self.exit
            await self.gone
        finally:
            if self._timer is not None:
                self._timer.cancel()
        number = facts.get("signal")
        if facts.get("cause") == "lease" and self.why_ended is None:
            self.why_ended = LEASE_LOST
        return AttemptEnd(
            facts.get("code"),
            signal_name(number) if number else None,
            self.why_ended,
            is_unknown=bool(facts.get("unknown")),
            is_cancelled=self.is_cancelled,
        )

    @property
    def log_bytes(self) -> int:
        return int(self.exit.result().get("log_bytes") or 0) if self.exit.done() else 0


def service_of(job: str) -> str:
    """Return the name under which the keeper runs and records a job."""
    return f"{OWN_NAMES}{job}"
