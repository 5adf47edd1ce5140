"""`policies:` and what `security:` says about requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.policies import FilterSpec, RateLimit, Window
from holdfast.vocabulary.specs.settings import Settings


def settings(tmp_path: Path, text: str, **environ: str) -> Settings:
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"services: {{web: sleep 1}}\n{text}")
    return load(str(path), environ=environ).settings


def problems(tmp_path: Path, text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text, **environ)
    return f"{caught.value.message} {caught.value.hint} {caught.value.details}"


ADVANCED = "runtime_mode: advanced\n"


def test_policies_are_read_in_their_order(tmp_path: Path) -> None:
    """With every key, a number for a name, and one value for a list of one."""
    found = settings(
        tmp_path,
        ADVANCED
        + """
policies:
  - effect: confirm
    roles: agent
    commands: [restart, "git_*"]
    services: [db]
    tags: [prod]
    paths: ["src/*"]
    doors: [mcp]
    times: Mon-Fri 09:00-17:00 Europe/Berlin
    approve_within: 5m
    approvers: operator
    reason: the team's
  - {name: night, effect: deny, actors: ci, times: ["22:00-06:00", Sat]}
""",
    ).policies
    first, second = found
    assert (first.name, first.effect, first.roles, first.approve_within) == (
        ("1", "confirm", ("agent",), 300.0)
    )
    berlin = Window(days=(0, 1, 2, 3, 4), begin=540, end=1020, zone="Europe/Berlin")
    assert first.times == (berlin,)
    assert second.times == (Window(begin=1320, end=360), Window(days=(5,)))
    assert second.name == "night"


def test_filters_and_the_rate(tmp_path: Path) -> None:
    """Without them nothing is filtered, and the rate is generous."""
    found = settings(
        tmp_path,
        ADVANCED
        + """
security:
  filters: {max_length: 1000, control_characters: false, forbid: ["*rm -rf*"]}
  rate_limit: {requests_per_second: 0.5, burst: 3}
""",
    )
    assert found.filters == FilterSpec(
        max_length=1000, control_characters=False, forbid=("*rm -rf*",)
    )
    assert found.rate_limit == RateLimit(requests_per_second=0.5, burst=3)
    plain = settings(tmp_path, "")
    assert (plain.filters, plain.policies, plain.rate_limit) == (None, (), RateLimit())


@pytest.mark.parametrize(
    "text", ["policies: [{effect: deny}]", "security: {filters: {max_length: 5}}"]
)
def test_what_proxy_would_not_heed_is_a_problem(tmp_path: Path, text: str) -> None:
    """Restrictions are never left out silently, whoever says proxy."""
    told = problems(tmp_path, text)
    assert "mode proxy would not heed this" in told
    assert "runtime_mode: advanced" in told
    told = problems(tmp_path, ADVANCED + text, HOLDFAST_RUNTIME_MODE="proxy")
    assert "mode proxy would not heed this" in told
    assert settings(tmp_path, text, MAGICTUNNEL_RUNTIME_MODE="advanced").runtime_mode == "advanced"


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("{roles: [agent]}", "a policy has an effect"),
        ("{effect: maybe}", "is not known"),
        ("{effect: deny, commands: [restrat]}", 'did you mean "restart"'),
        ("{effect: confirm, commands: [logs]}", "changes nothing"),
        ("{effect: deny, approvers: admin}", "only effect: confirm has it"),
        ("{effect: deny, roles: [boss]}", "is not known"),
        ("{effect: deny, times: whenever it rains}", "no times of the week"),
        ("{effect: deny, times: 25:00-26:00}", "no time of a day"),
        ("{effect: deny, times: 09:00-09:00}", "no time at all"),
        ("{effect: deny, times: Mon Nowhere/City}", "no time zone"),
        ("{effect: confirm, approve_within: 0}", "too short"),
        ("{effect: deny, servces: [db]}", "services"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, policy: str, told: str) -> None:
    """With what to write instead."""
    assert told in problems(tmp_path, f"{ADVANCED}policies: [{policy}]")


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("Fri-Mon", {"days": (0, 4, 5, 6)}),
        ("sat,sun 10:00-24:00", {"days": (5, 6), "begin": 600}),
        ("UTC", {"zone": "UTC"}),
        ("7:30-8:00 UTC", {"begin": 450, "end": 480, "zone": "UTC"}),
    ],
)
def test_times_are_forgiving(tmp_path: Path, text: str, window: dict[str, Any]) -> None:
    """Days, hours and zone may each be left out."""
    found = settings(tmp_path, f'{ADVANCED}policies: [{{effect: deny, times: "{text}"}}]')
    assert found.policies[0].times == (Window(**window),)
