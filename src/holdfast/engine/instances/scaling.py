"""How many instances of a service are wanted, if not the configured number.

Kept in the keeper's memory: a new supervisor continues with it, and finishes what was interrupted.
It holds until the configured number changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import KeeperApi
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Configuration, Template

LoadInstances = Callable[[Template, str, int, Mapping[str, str]], dict[str, ServiceSpec]]


class ScaleSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted number, and the number that was configured then."""

    configured: int
    wanted: int
    is_done: bool = False
    """Whether every instance is there, and none too many."""


class Scaling:
    """The numbers in force."""

    def __init__(self, keeper: KeeperApi, roster: Roster) -> None:
        self._keeper = keeper
        self._roster = roster
        self._scales: dict[str, ScaleSetting] = {}

    def restore(self, kept: Mapping[str, str]) -> None:
        for name, value in keeper_memory.scale.entries(kept):
            self._scales[name] = msgspec.json.decode(value, type=ScaleSetting)
            self._show_difference(name)

    def unfinished(self) -> dict[str, int]:
        """Return services whose instances an earlier supervisor had still to start or stop."""
        return {name: scale.wanted for name, scale in self._scales.items() if not scale.is_done}

    def wanted(self, name: str, template: Template) -> int:
        """Return how many instances there should be."""
        scale = self._scales.get(name)
        if scale is None or scale.configured != template.instances:
            return template.instances
        return scale.wanted

    def begin(self, name: str, configured: int, wanted: int) -> None:
        """Want so many from now on."""
        self._set(name, ScaleSetting(configured=configured, wanted=wanted))

    def finish(self, name: str) -> None:
        """Note that every instance is there, and none too many."""
        scale = self._scales.get(name)
        if scale is not None and scale.wanted == scale.configured:
            self._set(name, None)
        elif scale is not None:
            self._set(name, msgspec.structs.replace(scale, is_done=True))

    def fitted(
        self, configuration: Configuration, environ: Mapping[str, str], load: LoadInstances
    ) -> Configuration:
        """Return the configuration with the numbers in force. It reads files: use a thread."""
        services = dict(configuration.services)
        for name, template in configuration.settings.templates.items():
            count = self.wanted(name, template)
            if count != template.instances:
                for spec in configuration.services.values():
                    if spec.template == name:
                        del services[spec.name]
                services.update(load(template, name, count, environ))
        return msgspec.structs.replace(configuration, services=services)

    def surplus(self, name: str, count: int) -> list[str]:
        """Return the instances above this number, the highest first."""
        found = [
            (runner.declaration.spec.index or 0, runner.name)
            for runner in self._roster.runners.values()
            if runner.declaration.spec.template == name
        ]
        return [instance for index, instance in sorted(found, reverse=True) if index > count]

    def differences(self) -> dict[str, str]:
        """Return in words what differs from the configuration."""
        return {
            name: f"scaled to {scale.wanted}, configured {scale.configured}"
            for name, scale in self._scales.items()
            if scale.wanted != scale.configured
        }

    def held(self, templates: Mapping[str, Template]) -> dict[str, str]:
        """Return which of these differences the given templates would keep."""
        return {
            name: words
            for name, words in self.differences().items()
            if name in templates and templates[name].instances == self._scales[name].configured
        }

    def settle(self, templates: Mapping[str, Template]) -> None:
        """Forget numbers that a new configuration replaces."""
        for name, scale in list(self._scales.items()):
            template = templates.get(name)
            if template is None or template.instances != scale.configured:
                self._set(name, None)
        for name in self._scales:
            self._show_difference(name)

    def _set(self, name: str, scale: ScaleSetting | None) -> None:
        if scale is None:
            self._scales.pop(name, None)
            self._keeper.keep(keeper_memory.scale(name), None)
        else:
            self._scales[name] = scale
            self._keeper.keep(keeper_memory.scale(name), msgspec.json.encode(scale).decode())
        self._show_difference(name)

    def _show_difference(self, name: str) -> None:
        words = self.differences().get(name)
        for runner in self._roster.runners.values():
            if runner.declaration.spec.template == name:
                runner.set_scaled(words)
