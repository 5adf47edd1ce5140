"""Dependencies: which service needs which, and whether it has what it needs."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class Need(Result, frozen=True, kw_only=True):
    """One service that another one needs first."""

    service: str
    condition: str
    """started, ready, healthy, completed or log."""
    is_met: bool
    restart: bool = False
    """Whether a new run of it restarts the service that needs it."""


class ServiceNeeds(Result, frozen=True, kw_only=True):
    """A service with its neighbours, and the names that it belongs to."""

    status: str
    desired: str
    needs: list[Need] = []
    needed_by: list[str] = []
    layer: int = 0
    """Its place in the order of starts: services of layer 0 need nobody."""
    template: str | None = None
    """The name that it shares with other instances."""
    groups: list[str] = []
    tags: list[str] = []


class DependenciesResult(Result, frozen=True, kw_only=True):
    services: dict[str, ServiceNeeds]

    def only(self, may_see: Callable[[str], bool]) -> DependenciesResult:
        """Return the answer without services that a caller may not see."""
        visible = {
            name: replace(
                one,
                needs=[need for need in one.needs if may_see(need.service)],
                needed_by=[other for other in one.needed_by if may_see(other)],
                groups=[],
            )
            for name, one in self.services.items()
            if may_see(name)
        }
        return replace(self, services=visible)


class Dependencies(Command, frozen=True, kw_only=True):
    """Tell which service needs which, whether it has what it needs, and in which order they start.

    With groups and tags of each, so that services can be shown by them.
    """

    name = "dependencies"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = DependenciesResult
    route = ("GET", "/api/dependencies")
    is_shared = True
    services: list[str] = []
