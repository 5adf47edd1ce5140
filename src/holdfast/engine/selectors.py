"""The meaning of a name in a command: a service, its instances, a group, or a tag.

`web` is a service, or all instances of it; `web@2` is one of them; `backend` or
`group:backend` is a group; `tag:dev` is every service with that tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.vocabulary.errors import UnknownService, UsageError
from holdfast.vocabulary.specs.services import ServiceSpec

GROUP, TAG = "group:", "tag:"


class Selectors:
    """The names that can be used now."""

    def __init__(
        self,
        specs: Mapping[str, ServiceSpec],
        groups: Mapping[str, Iterable[str]],
        *,
        is_loaded: bool = False,
    ) -> None:
        """`is_loaded`: the services are those that are known now; the configuration file may have
        others meanwhile."""
        self._specs = specs
        self._groups = groups
        self._is_loaded = is_loaded

    def names(self, wanted: Iterable[str]) -> list[str]:
        """The services that these names stand for, each once, in this order; raises for an unknown
        name."""
        found: dict[str, None] = {}
        for selector in wanted:
            found.update(dict.fromkeys(self.expand(selector)))
        return list(found)

    def expand(self, selector: str) -> list[str]:
        """The services that one name stands for; raises UnknownService if it stands for none."""
        if selector in self._specs:
            return [selector]
        if selector.startswith(TAG):
            found = self._tagged(selector[len(TAG) :])
        elif selector.startswith(GROUP):
            found = self._members(selector[len(GROUP) :])
        else:
            found = self._instances(selector) or self._members(selector)
        if not found:
            has_file = self._is_loaded and any(
                spec.origin == "config" for spec in self._specs.values()
            )
            raise UnknownService.named(selector, self.known(), has_file=has_file)
        return found

    def one(self, selector: str) -> str:
        """The only service that a name stands for; raises UsageError when there are more."""
        found = self.expand(selector)
        if len(found) > 1:
            raise UsageError(
                f"{selector} stands for {len(found)} services", f"name one: {', '.join(found)}"
            )
        return found[0]

    def known(self) -> list[str]:
        """Every name that may be used, services first."""
        return [*self._specs, *self.labels()]

    def labels(self) -> list[str]:
        """The names that stand for several services."""
        templates = dict.fromkeys(s.template for s in self._specs.values() if s.template)
        tags = dict.fromkeys(tag for spec in self._specs.values() for tag in spec.tags)
        return [
            *templates,
            *(f"{GROUP}{name}" for name in self._groups),
            *(f"{TAG}{name}" for name in tags),
        ]

    def _tagged(self, tag: str) -> list[str]:
        return [name for name, spec in self._specs.items() if tag in spec.tags]

    def _members(self, group: str) -> list[str]:
        found: dict[str, None] = {}
        for member in self._groups.get(group, ()):
            names = [member] if member in self._specs else self._instances(member)
            found.update(dict.fromkeys(names))
        return list(found)

    def _instances(self, template: str) -> list[str]:
        return [name for name, spec in self._specs.items() if spec.template == template]
