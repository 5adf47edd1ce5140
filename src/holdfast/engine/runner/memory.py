"""The values of one service in the keeper's memory, so that the next supervisor finds it again.

The keys and the form of their values are the contract of every upgrade: they only grow.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_memory import KeyFamily
from holdfast.engine.runner.environment import KeeperApi
from holdfast.rules.health import Condition
from holdfast.rules.lifecycle.restart import RunVerdict
from holdfast.vocabulary.readers import reader

_decode_condition = reader(tuple[str, Condition])
_decode_verdict = reader(tuple[str, RunVerdict])
_decode_ports = reader(dict[str, int])
_decode_restarts = reader(dict[str, int])
_decode_leaving = reader(dict[str, str])


class ServiceMemory:
    """The part of the keeper's memory that belongs to one service."""

    def __init__(self, name: str, keeper: KeeperApi) -> None:
        self._name = name
        self._keeper = keeper
        self._desired: str | None = None

    def publish_desired(self, word: str) -> None:
        """Write the desired state of the service, in order with the requests to the keeper."""
        if word != self._desired:
            self._desired = word
            self._keeper.keep(keeper_memory.desired(self._name), word)

    def keep_condition(self, run_id: str, condition: Condition) -> None:
        """Keep the condition of a run, which it reports once and does not repeat."""
        self._keep(keeper_memory.condition, (run_id, condition))

    def condition_of(self, run_id: str) -> Condition | None:
        """The condition of this run, as an earlier supervisor kept it."""
        try:
            of_run, condition = _decode_condition(self._read(keeper_memory.condition))
        except msgspec.MsgspecError:
            return None
        return condition if of_run == run_id else None

    def keep_verdict(self, run_id: str | None, verdict: RunVerdict | None) -> None:
        """Keep why a run is being ended as a failure: the next supervisor must not take that end
        for a restart that somebody asked for."""
        if verdict is None:
            self._keeper.keep(keeper_memory.verdict(self._name), None)
        else:
            self._keep(keeper_memory.verdict, (run_id, verdict))

    def verdict_of(self, run_id: str | None) -> RunVerdict | None:
        """Why an earlier supervisor was ending this run as a failure, if it was."""
        try:
            of_run, verdict = _decode_verdict(self._read(keeper_memory.verdict))
        except msgspec.MsgspecError:
            return None
        return verdict if of_run == run_id else None

    def keep_restarts(self, counts: dict[str, int]) -> None:
        """Keep how often the service was restarted, by cause."""
        self._keep(keeper_memory.restarts, counts)

    def restarts(self) -> dict[str, int]:
        """How often the service was restarted, as an earlier supervisor kept it."""
        try:
            return _decode_restarts(self._read(keeper_memory.restarts))
        except msgspec.MsgspecError:
            return {}

    def keep_ports(self, ports: dict[str, int] | None) -> None:
        """Keep the ports that are leased for the service."""
        if ports is None:
            self._keeper.keep(keeper_memory.ports(self._name), None)
        else:
            self._keep(keeper_memory.ports, ports)

    def ports(self) -> dict[str, int] | None:
        """The ports that an earlier supervisor leased for the service."""
        try:
            return _decode_ports(self._keeper.kept[keeper_memory.ports(self._name)])
        except (KeyError, msgspec.MsgspecError):
            return None

    def keep_leaving(self, run_id: str | None) -> None:
        """Keep which of two runs has to go."""
        if run_id is None:
            self._keeper.keep(keeper_memory.overlap(self._name), None)
        else:
            self._keep(keeper_memory.overlap, {"leaving": run_id})

    def forget_run(self) -> None:
        """Forget what was known of its run."""
        self._keeper.keep(keeper_memory.condition(self._name), None)

    def _keep(self, key: KeyFamily, value: object) -> None:
        self._keeper.keep(key(self._name), msgspec.json.encode(value).decode())

    def _read(self, key: KeyFamily) -> str:
        return self._keeper.kept.get(key(self._name)) or ""


def leaving_run(kept: Mapping[str, str], service: str) -> str | None:
    """Of two runs that a supervisor left behind, the one that has to go: the new one, unless it
    had replaced the old one already."""
    try:
        return _decode_leaving(kept[keeper_memory.overlap(service)]).get("leaving")
    except (KeyError, msgspec.MsgspecError):
        return None
