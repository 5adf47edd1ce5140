"""A git command is judged by its repository's own folder, however the repository is named: limits
of tokens to paths and policies about paths hold for the whole that it acts on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.app.application import Application
from holdfast.app.audit.auditor import Auditor
from holdfast.vocabulary.actors import Actor, Role, Scopes
from holdfast.vocabulary.codec import command_from
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.errors import HoldfastError, Refused
from holdfast.vocabulary.specs.policies import FilterSpec, PolicySpec
from tests.app.test_application import Link, NoGate, Records, Unlocked
from tests.git.desk import Desk
from tests.git.test_denied import FIELDS

SECRET = "hunter2"
WHOLE: dict[str, dict[str, Any]] = {
    **{name: fields[0] for name, fields in FIELDS.items()},
    "git_commit": {"message": "m"},
    "git_restore": {"paths": ["."]},
    "git_blame": {"path": "secrets/plan.txt"},
    "git_show": {"rev": "other"},
    "git_switch": {"branch": "other"},
    "git_diff": {"rev": "other"},
}
"""Each command with fields that are about the whole repository, or about a file elsewhere in it."""


class _Advanced:
    filters = FilterSpec()

    def __init__(self, *policies: PolicySpec) -> None:
        self.policies = policies
        self.counters = self

    def refused(self, cause: str, actor: Actor) -> None:
        """Nobody counts here."""


class _Authority:
    lockdown = Unlocked()

    def __init__(self, advanced: _Advanced | None) -> None:
        self.advanced = advanced


class _Roster:
    runners: dict[str, Any] = {}


class House:
    """The application in front of real handlers and a real repository."""

    def __init__(self, folder: Path, *policies: PolicySpec) -> None:
        self.desk = Desk(folder)
        self.desk.repository(**{"src/a.txt": "one\n", "secrets/plan.txt": "plan\n"})
        self.desk.run_git("checkout", "-q", "-b", "other")
        self.desk.write("secrets/plan.txt", f"{SECRET}\n")
        self.desk.run_git("commit", "-qam", SECRET)
        self.desk.run_git("checkout", "-q", "main")
        self.desk.run_git(
            "update-ref", "refs/holdfast/checkpoints/20200101-000000-000aaaaa", "other"
        )
        self.desk.write("secrets/plan.txt", f"{SECRET} changed\n")
        context: Any = self.desk
        context.authority = _Authority(_Advanced(*policies) if policies else None)
        context.roster, context.gate, context.link = _Roster(), NoGate(), Link({})
        self.records = Records()
        self.application = Application(context, Auditor(self.records))

    def ask(self, actor: Actor, name: str, **fields: Any) -> str:
        async def story() -> Any:
            answer: Any = self.application.dispatch(actor, command_from(name, fields))
            return await answer if isinstance(answer, Awaitable) else answer

        return msgspec.json.encode(asyncio.run(story())).decode()

    def state(self) -> tuple[str, ...]:
        status = self.desk.run_git("status", "--porcelain=v2", "--branch", "--show-stash")
        refs = self.desk.run_git("for-each-ref")
        return status, refs, self.desk.read("secrets/plan.txt")


def bot(*paths: str) -> Actor:
    scopes = Scopes(paths=paths) if paths else Scopes()
    return Actor(Role.OPERATOR, "token bot", Door.REST, scopes=scopes)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_token_for_a_folder_reaches_nothing_above_it(tmp_path: Path, name: str) -> None:
    """A repository that is named by a folder within is judged, and refused, as the whole."""
    house = House(tmp_path)
    before = house.state()
    for folder in ("src", "src/", f"{house.desk.project}/src", "src/a.txt"):
        with pytest.raises(Refused, match=r"limited to src/\*\*") as caught:
            house.ask(bot("src/**"), name, repository=folder, **WHOLE[name])
        assert SECRET not in str(caught.value.message)
    assert house.state() == before
    assert house.records.all
    assert all(one["outcome"] == "refused" for one in house.records.all)


CLOSED = PolicySpec(name="closed", effect="deny", paths=("*/secrets/*",))


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_policy_about_a_folder_holds_from_everywhere(tmp_path: Path, name: str) -> None:
    """A repository that is named by another folder is judged as the whole: what is denied in it is
    neither told nor changed."""
    house = House(tmp_path, CLOSED)
    before = house.state()
    if name in ("git_switch", "git_blame") or "checkpoint" in name:
        with pytest.raises(Refused, match="closed"):
            house.ask(bot(), name, repository="src", **WHOLE[name])
    else:
        answer = house.ask(bot(), name, repository="src", **WHOLE[name])
        # Whoever would change it is told what was left out.
        assert "plan.txt" not in answer or "denied (secrets/plan.txt)" in answer
        assert f"+{SECRET}" not in answer
    after = house.state()
    assert (after[0], after[2]) == (before[0], before[2])


def test_a_policy_leaves_other_files_of_a_repository_alone(tmp_path: Path) -> None:
    """A pattern that could mean something below every folder refuses no command about files that
    it does not mean."""
    house = House(tmp_path, CLOSED)
    house.desk.write("src/a.txt", "two\n")
    house.desk.write("app/secrets/key.txt", "key\n")
    assert "src/a.txt" in house.ask(bot(), "git_status")
    assert "+two" in house.ask(bot(), "git_diff", paths=["src/a.txt"])
    assert "first" in house.ask(bot(), "git_log", paths=["src/a.txt"])
    assert "one" in house.ask(bot(), "git_blame", path="src/a.txt", rev="HEAD")
    assert "1 file stashed" in house.ask(bot(), "git_stash", paths=["src/a.txt"])
    assert "brought back" in house.ask(bot(), "git_stash", action="pop")
    assert "1 file restored" in house.ask(bot(), "git_restore", paths=["src"])
    house.desk.write("src/a.txt", "three\n")
    assert "1 file staged" in house.ask(bot(), "git_add", paths=["."])
    assert "key.txt" not in house.desk.run_git("ls-files")
    answer = house.ask(bot(), "git_commit", message="m", paths=["src/a.txt"])
    assert '"path":"src/a.txt"' in answer
    assert house.desk.read("secrets/plan.txt") == f"{SECRET} changed\n"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("git_diff", {"paths": ["secrets"]}),
        ("git_diff", {"paths": ["src", "SECRETS/plan.txt"]}),
        ("git_add", {"paths": ["secrets/plan.txt"]}),
        ("git_commit", {"message": "m"}),
        ("git_stash", {"paths": ["src"]}),
        ("git_stash", {"action": "pop"}),
    ],
)
def test_a_policy_refuses_what_it_means(tmp_path: Path, name: str, fields: dict[str, Any]) -> None:
    """By its name, because it is staged, or because a stash would bring it back."""
    house = House(tmp_path, CLOSED)
    if fields.get("action") == "pop":
        house.desk.run_git("stash")
    else:
        house.desk.run_git("add", "--all")
    before = house.state()
    with pytest.raises(Refused, match="closed"):
        house.ask(bot(), name, **fields)
    assert house.state() == before


def test_what_needs_approval_is_asked_for_by_its_own_name(tmp_path: Path) -> None:
    """Who approves must see what it is about."""
    policy = PolicySpec(name="ask", effect="confirm", paths=("secrets/*",))
    house = House(tmp_path, policy)
    with pytest.raises(Refused, match="needs approval") as caught:
        house.ask(bot(), "git_stash", repository="src")
    assert 'repository "."' in caught.value.hint


def test_paths_within_the_limits_are_still_served(house: House) -> None:
    """A token for a folder reads and changes that folder; one for the repository all of it."""
    house.desk.write("src/a.txt", "two\n")
    mine = bot("src/**")
    assert "+two" in house.ask(mine, "git_diff", paths=["src/a.txt"])
    assert SECRET not in house.ask(mine, "git_diff", paths=["src"])
    assert house.ask(mine, "git_commit", message="m", paths=["src"])
    with pytest.raises(Refused):
        house.ask(mine, "git_diff", paths=["src", "secrets"])
    assert "secrets/plan.txt" in house.ask(bot("."), "git_status", repository="src")
    assert "secrets/plan.txt" in house.ask(bot(), "git_status", repository="src")


def test_a_repository_within_the_limits_is_its_own(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own root counts, and not another's that takes its place after it was judged."""
    house.desk.run_git("init", "-q", "src")
    mine = bot("src/**")
    assert '"repository":"src"' in house.ask(mine, "git_status", repository="src")
    opened = house.desk.git.opened
    seen: list[int] = []

    @asynccontextmanager
    async def swapped(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        async with opened(*arguments, **options) as found:
            if not seen:
                os.rename(house.desk.project / "src/.git", house.desk.project / "moved")
            seen.append(1)
            yield found

    monkeypatch.setattr(house.desk.git, "opened", swapped)
    with pytest.raises(HoldfastError, match="another repository"):
        house.ask(mine, "git_log", repository="src")
