"""Stories of commands that are asked again under the same key, because nobody knew better."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, is_alive, kill_9, quick, wait_for


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as hold:
        hold.services(web=quick(), slow=quick(start_seconds=1.5), idle=quick(autostart=False))
        hold.up()
        hold.wait_status("slow", "running")
        yield hold


def connect(hold: Hold) -> Connection:
    return Connection(str(hold.runtime / "line.sock"))


def test_a_repeated_command_is_done_once(hold: Hold) -> None:
    """The second answer is the first one's, word for word, and nothing is restarted twice."""
    first = hold.ask("restart", services=["web"], key="r1")
    again = hold.ask("restart", services=["web"], key="r1")
    assert first == again
    assert hold.service("web")["pid"] == first["services"]["web"]["pid"]
    other = hold.ask("restart", services=["web"], key="r2")
    assert other["services"]["web"]["pid"] != first["services"]["web"]["pid"]


def test_a_key_is_for_one_command_of_one_actor(hold: Hold) -> None:
    """Another command under it is refused; another actor's key of that name is another key."""
    hold.ask("start", services=["web"], key="k")
    with pytest.raises(HoldfastError, match="another command"):
        hold.ask("restart", services=["web"], key="k")
    token = hold.ask("create_token", token_name="ci", role="operator")["text"]
    pid = hold.service("web")["pid"]
    hold.ask("restart", services=["web"], key="k", caller={"token": token})
    assert hold.service("web")["pid"] != pid


def test_who_asks_while_it_is_done_joins(hold: Hold) -> None:
    """Both get the one answer."""
    one, two = connect(hold), connect(hold)
    first = one.send("restart", services=["slow"], key="j")
    second = two.send("restart", services=["slow"], key="j")
    answers = [
        one.answer(first, 20)["services"]["slow"],
        two.answer(second, 20)["services"]["slow"],
    ]
    assert answers[0] == answers[1]
    assert answers[0]["run_id"] == hold.service("slow")["run_id"]
    one.close()
    two.close()


def test_what_is_refused_may_be_asked_again(hold: Hold) -> None:
    """Nothing was done, so nothing is remembered."""
    for _ in range(2):
        with pytest.raises(HoldfastError, match="no service"):
            hold.ask("restart", services=["nobody"], key="n")


def test_an_answer_outlives_the_supervisor(hold: Hold) -> None:
    """kill -9 after the answer: the next supervisor tells the same and does nothing."""
    first = hold.ask("restart", services=["web"], key="s")
    kill_9(hold.supervisor_pid)
    again = wait_for(lambda: _ask(hold, "restart", services=["web"], key="s"))
    assert again == first
    assert hold.service("web")["pid"] == first["services"]["web"]["pid"]


def test_between_doing_and_answering_the_outcome_is_unknown(hold: Hold) -> None:
    """kill -9 in the middle of a restart: asked again it is said to be unknown, not done twice."""
    before = hold.service("slow")["pid"]
    connection = connect(hold)
    connection.send("restart", services=["slow"], key="u")
    pid = wait_for(lambda: (p := hold.service("slow")["pid"]) not in (None, before) and p)
    kill_9(hold.supervisor_pid)
    connection.close()
    with pytest.raises(HoldfastError, match="its outcome is unknown") as caught:
        wait_for(lambda: _ask(hold, "restart", services=["slow"], key="u"))
    assert caught.value.code == "unknown_outcome"
    assert is_alive(pid)
    assert hold.service("slow")["pid"] == pid


def test_what_may_be_done_twice_is_done_again(hold: Hold) -> None:
    """kill -9 in the middle of a start: asked again it joins what runs."""
    hold.ask("stop", services=["slow"])
    connection = connect(hold)
    connection.send("start", services=["slow"], key="v")
    pid = wait_for(lambda: hold.service("slow")["pid"])
    kill_9(hold.supervisor_pid)
    connection.close()
    outcome = wait_for(lambda: _ask(hold, "start", services=["slow"], key="v"))
    assert (outcome["services"]["slow"]["outcome"], outcome["services"]["slow"]["pid"]) == (
        "already_running",
        pid,
    )


def _ask(hold: Hold, command: str, **fields: Any) -> dict[str, Any] | None:
    try:
        return hold.ask(command, **fields)
    except OSError:
        return None
