"""The remains of each service after a supervisor, collected from the keeper and the database.

Sorts the keeper's memory, its runs, its journalled exits and the database's records by service.
Decides nothing about a service: `rules.lifecycle.restoring` does that, and the runner acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.adapters.store.state_tables import ServiceRecord
from holdfast.engine.runner.declaration import Declaration, StoredDeclaration
from holdfast.engine.runner.memory import leaving_run
from holdfast.rules.lifecycle.restoring import desired_of, exits_aside, own_run, state_of
from holdfast.vocabulary.readers import reader

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import ExitFacts, RunFacts

_log = logger("remains")
_decode_declaration = reader(StoredDeclaration)
_decode_environ = reader(dict[str, str])


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """The remains of one service."""

    declaration: Declaration | None = None
    stored: StoredDeclaration | None = None
    """The same from the keeper's memory, with the specification that its run was started with."""
    desired: str | None = None
    """The word in the keeper's memory for its desired state."""
    record: ServiceRecord | None = None
    run: RunFacts | None = None
    second: RunFacts | None = None
    """A run beside that one, which has to go."""
    exits: Sequence[ExitFacts] = ()
    """Exits that nobody has counted, ordered by the number of their runs."""
    exits_aside: Sequence[ExitFacts] = ()
    """Exits that do not count: their run was to go while another one stayed."""

    def corrected_record(self) -> ServiceRecord | None:
        """The database's record, corrected by the keeper's memory, which is never behind."""
        word, record = self.desired, self.record
        if word is None:
            return record
        desired, by_hand = desired_of(word)
        if record is not None:
            return structs.replace(record, desired=desired, stopped_by_hand=by_hand)
        state = state_of(word)
        return ServiceRecord(desired=desired, stopped_by_hand=by_hand, state=state, since=0.0)


def collect(
    runs: Iterable[RunFacts],
    exits: Iterable[ExitFacts],
    kept: Mapping[str, str],
    records: Mapping[str, ServiceRecord],
) -> dict[str, Remains]:
    """Sort everything by service: declared services first, then those that only the keeper's runs
    and exits tell of."""
    runs_of: dict[str, dict[str, RunFacts]] = {}
    for run in sorted(runs, key=lambda run: run.get("number") or 0):
        runs_of.setdefault(run["service"], {})[run["run_id"]] = run
    exits_of: dict[str, dict[str, ExitFacts]] = {}
    for ended in sorted(exits, key=lambda ended: ended.get("number") or 0):
        exits_of.setdefault(ended["service"], {})[ended["run_id"]] = ended
    declared = dict(_declarations(kept))
    found: dict[str, Remains] = {}
    for name in (*declared, *runs_of, *exits_of):
        if name in found:
            continue
        declaration, stored = declared.get(name, (None, None))
        own_runs, own_exits = runs_of.get(name, {}), exits_of.get(name, {})
        leaving = leaving_run(kept, name)
        own, second = own_run(list(own_runs), leaving)
        aside: list[str] = []
        if declaration is not None:
            aside = exits_aside(list(own_exits), leaving, has_run=own is not None)
        found[name] = Remains(
            declaration=declaration,
            stored=stored,
            desired=kept.get(keeper_memory.desired(name)) if stored is not None else None,
            record=records.get(name),
            run=own_runs[own] if own is not None else None,
            second=own_runs[second] if second is not None and stored is not None else None,
            exits=[ended for run_id, ended in own_exits.items() if run_id not in aside],
            exits_aside=[own_exits[run_id] for run_id in aside],
        )
    return found


def _declarations(
    kept: Mapping[str, str],
) -> Iterable[tuple[str, tuple[Declaration, StoredDeclaration]]]:
    environs: dict[str, dict[str, str]] = {}
    for name, value in keeper_memory.spec.entries(kept):
        try:
            stored = _decode_declaration(value)
        except msgspec.MsgspecError as error:
            # Another version wrote it. Its run is adopted nevertheless, as an unknown one.
            _log.error("the declaration %s is not understood: %s", keeper_memory.spec(name), error)
            continue
        if stored.environ not in environs:
            environ = kept.get(keeper_memory.environ(stored.environ))
            environs[stored.environ] = _decode_environ(environ) if environ else {}
        declaration = Declaration(stored.spec, environs[stored.environ], stored.environ)
        yield stored.spec.name, (declaration, stored)
