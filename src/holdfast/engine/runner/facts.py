"""The facts of one service: a frozen value that its runner replaces as a whole.

Every change raises `version`, so that a status that was built from older facts is recognised.
Only `engine.runner.runner` makes new facts. Everybody else reads them, and asks the runner for a
change by one of its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.engine.runner.declaration import Declaration, Overrides
from holdfast.engine.runner.live_run import LastExit, LiveRun
from holdfast.rules import plan
from holdfast.rules.admission.conditions import Prospect
from holdfast.rules.health import Condition
from holdfast.rules.lifecycle.restart import Counters
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import Desired, ErrorType, State

if TYPE_CHECKING:
    from holdfast.engine.runner.run_slot import RunSlot


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of one service."""

    version: int = 0
    """Raised by every change."""
    declaration: Declaration
    overrides: Overrides | None = None
    """The changes of the last restart, until a start without them."""

    # The state

    state: State = State.PENDING
    since: float
    since_mono: float
    """The same in monotonic time, which counts for this supervisor."""
    desired: Desired = Desired.STOPPED
    stopped_by_hand: bool = False
    """Somebody stopped it by hand, and nobody has wanted it since."""
    awaits_schedule: bool = False
    """It is wanted, but not before the next time of its schedule."""
    reason: str | None = None
    error_type: ErrorType | None = None
    """The kind of trouble that ended the last run."""
    counters: Counters = Counters()
    restarts: dict[str, int] = {}
    """Every restart since the service is known, by cause."""
    next_start_at: float | None = None
    """When its back-off ends, in wall time, for people and for the next supervisor."""
    due_mono: float = 0.0
    """The same in monotonic time, which counts for this supervisor."""

    # The runs

    number: int = 0
    """The number of the newest run."""
    run: LiveRun | None = None
    """Its run, while any process of it may exist. Nothing may be started then."""
    beside: RunSlot | None = None
    """A second run: a candidate to replace the first one, or a run that was replaced."""
    launched: ServiceSpec | None = None
    """The specification that the newest run was started with; None: unknown."""
    trace: plan.Trace | None = None
    """Its digest, where the specification is unknown."""
    condition: Condition = Condition()
    """Readiness and health of the newest run, by its probes."""
    last_run_id: str | None = None
    last_exit: LastExit = LastExit()
    accounted: str | None = None
    """The run whose exit the counters include already."""

    # A start that is wanted and has not begun

    waiting_for: tuple[str, ...] = ()
    """The conditions that it waits for, in words."""
    prospect: Prospect | None = None
    """How soon it may begin, while it waits."""
    in_doubt: str | None = None
    """Why nothing is started: an unknown process may be an earlier run of it."""
    is_retiring: bool = False
    """Holdfast shuts down, so nothing is started."""

    # Decisions of others

    is_leaving: bool = False
    """It is being stopped to be removed, so its dependents do not wait for it."""
    is_removed: bool = False
    """It is forgotten, and nothing will change any more."""
    owner: Owner | None = None
    """The session that it runs for; None: it is the user's."""
    ports: dict[str, int] | None = None
    """The ports that are leased for it; None: it wants none."""
    scaled: str | None = None
    """How the number of its instances differs from the configured one, in words."""
    next_scheduled: float | None = None
    """When its schedule starts it next, if it is wanted."""
    scheduled_until: float | None = None
    """All times of its schedule up to here are settled."""

    @property
    def is_outdated(self) -> bool:
        """Whether its run would be another process if it were started now."""
        spec = self.declaration.spec
        if self.run is None:
            return False
        if self.launched is None and self.trace is not None and spec.origin != "adopted":
            return not self.trace.fits(spec)
        return plan.is_outdated(self.launched, spec)


if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class FactChanges(TypedDict, total=False):
        """The facts that a change replaces. A test compares it with `Facts`."""

        declaration: Declaration
        overrides: Overrides | None
        state: State
        since: float
        since_mono: float
        desired: Desired
        stopped_by_hand: bool
        awaits_schedule: bool
        reason: str | None
        error_type: ErrorType | None
        counters: Counters
        restarts: dict[str, int]
        next_start_at: float | None
        due_mono: float
        number: int
        run: LiveRun | None
        beside: RunSlot | None
        launched: ServiceSpec | None
        trace: plan.Trace | None
        condition: Condition
        last_run_id: str | None
        last_exit: LastExit
        accounted: str | None
        waiting_for: tuple[str, ...]
        prospect: Prospect | None
        in_doubt: str | None
        is_retiring: bool
        is_leaving: bool
        is_removed: bool
        owner: Owner | None
        ports: dict[str, int] | None
        scaled: str | None
        next_scheduled: float | None
        scheduled_until: float | None
