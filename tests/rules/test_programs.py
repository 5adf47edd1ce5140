"""Which programs an assistant may have run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.authority.commands import permit_run
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.holdfast import Run
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.settings import Settings

AGENT = Actor(Role.AGENT, "assistant", None, Door.MCP)
OWNER = Actor(Role.OWNER, "me")
LISTED = Settings(mcp=McpSpec(run=True, programs=(("npm", "run"), ("pytest",))))
ANY = Settings(mcp=McpSpec(run=True))


def test_it_is_off_by_default_and_in_production() -> None:
    """The owner at his own socket is never asked."""
    assert not permit_run(AGENT, Run(argv=["true"]), Settings()).is_allowed
    assert permit_run(OWNER, Run(argv=["true"]), Settings()).is_allowed
    production = Settings(is_production=True, mcp=McpSpec(run=True))
    assert not permit_run(AGENT, Run(argv=["true"]), production).is_allowed


@pytest.mark.parametrize(
    ("argv", "is_allowed"),
    [
        (["npm", "run", "test"], True),
        (["pytest"], True),
        (["npm", "install"], False),
        (["/tmp/pytest"], False),
        (["sh", "-c", "pytest"], False),
        ([], True),
    ],
)
def test_listed_programs(argv: list[str], is_allowed: bool) -> None:
    """By whole words from the beginning; what is empty is refused by who runs it."""
    assert permit_run(AGENT, Run(argv=argv), LISTED).is_allowed is is_allowed


def test_an_environment_would_make_it_another_program() -> None:
    """So it is refused where programs are listed, and only there."""
    run = Run(argv=["pytest"], environment={"PATH": "/tmp"})
    assert not permit_run(AGENT, run, LISTED).is_allowed
    assert permit_run(AGENT, run, ANY).is_allowed


@given(st.text(alphabet="ab./", max_size=12))
def test_the_folder_stays_below_the_project(folder: str) -> None:
    """No way of writing it leads above."""
    import os

    if permit_run(AGENT, Run(argv=["true"], working_dir=folder), ANY).is_allowed:
        assert os.path.realpath(os.path.join("/p/q", folder)).startswith("/p/q")


def test_a_relative_program_is_another_one_elsewhere() -> None:
    """`./check` in another folder is not the `./check` that was listed."""
    settings = Settings(mcp=McpSpec(run=True, programs=(("./check",),)))
    assert permit_run(AGENT, Run(argv=["./check"]), settings).is_allowed
    other = Run(argv=["./check"], working_dir="sub")
    assert not permit_run(AGENT, other, settings).is_allowed
