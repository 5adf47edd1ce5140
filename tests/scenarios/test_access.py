"""«May this token do that?»: the answer is the decision itself, and nothing is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import Hold, quick

POLICY = {
    "name": "data",
    "effect": "confirm",
    "commands": ["restart"],
    "services": ["db"],
    "reason": "the data",
}
DENY = {
    "name": "keep",
    "effect": "deny",
    "commands": ["stop"],
    "roles": ["operator"],
    "services": ["db"],
}


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.write(
            {
                "runtime_mode": "advanced",
                "services": {"web": quick(), "db": quick()},
                "policies": [POLICY, DENY],
            }
        )
        made.up()
        made.ask("create_token", token_name="ci", role="operator", services=["web", "db"])
        yield made


def test_the_answer_is_the_decision(hold: Hold) -> None:
    """A role, a limit or a policy refuses, or a policy asks for an approval, with the reason."""
    assert hold.cli("may", "ci", "restart", "web").stdout.startswith("yes: ")
    assert "after admin approval" in hold.cli("may", "ci", "restart", "db").stdout
    assert 'policy "keep"' in hold.cli("may", "ci", "stop", "db", expect=5).stdout
    assert "may look, not change" in hold.cli("may", "viewer", "stop", "web", expect=5).stdout
    refused = hold.ask("check_access", who="ci", about="shutdown")
    assert (refused["allowed"], refused["cause"], refused["who"]) == (False, "role", "token ci")
    asked = hold.ask("check_access", who="ci", about="restart", services=["db"])
    assert (asked["needs_approval"], asked["approvers"]) == (True, "admin")


def test_nothing_is_done_by_asking(hold: Hold) -> None:
    """No service is touched, and the refusals told are not counted as refusals."""
    before = hold.service("web")["pid"], hold.ask("metrics")["security"]["refusals"]
    hold.ask("check_access", who="admin", about="stop", services=["web"])
    hold.ask("check_access", who="viewer", about="stop", services=["web"])
    assert (hold.service("web")["pid"], hold.ask("metrics")["security"]["refusals"]) == before


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("nobody", "stop", "web"), "holdfast token ls"),
        (("ci", "stopp", "web"), 'did you mean "stop"'),
        (("ci", "shutdown", "web"), "about no service"),
        (("ci", "logs", "web", "db"), "about one service"),
    ],
)
def test_a_question_that_means_nothing(hold: Hold, words: tuple[str, ...], hint: str) -> None:
    """The error says what is wrong, and what to do."""
    assert hint in hold.cli("may", *words, expect=2).stderr


def test_policies_are_listed_in_their_order(hold: Hold) -> None:
    """As configured, with their reasons; mode proxy says that it has none."""
    listed = hold.ask("policies")
    assert [policy["name"] for policy in listed["policies"]] == ["data", "keep"]
    assert "the data" in hold.cli("policies").stdout


def test_a_rotated_token_is_told_once(hold: Hold) -> None:
    """Its new text is printed, and the list has one token of that name as before."""
    hold.ask("create_token", token_name="old", role="viewer")
    text = hold.cli("token", "rotate", "old").stdout.strip()
    assert text.startswith("holdfast_")
    names = [token["name"] for token in hold.ask("list_tokens")["tokens"]]
    assert names.count("old") == 1
