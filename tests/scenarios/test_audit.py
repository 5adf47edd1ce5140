"""Who did what is on record, and the record cannot be changed unnoticed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary.errors import Refused, TooManyRequests
from tests.harness import Hold, kill_9, read_until, started, wait_for


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.services(web=["sleep", "1000"])
        made.up()
        yield made


def records(hold: Hold, *options: str) -> list[dict[str, Any]]:
    told = hold.cli("audit", "--json", *options).stdout
    return [json.loads(line) for line in told.splitlines()]


def audit_files(hold: Hold) -> list[Path]:
    return sorted(hold.state.glob("audit/*.jsonl"))


def test_changes_and_reads_of_output_are_recorded_once(hold: Hold) -> None:
    """Looking at the status is not; secrets and values of variables never are."""
    hold.cli("status")
    hold.cli("restart", "web", "-e", "API_TOKEN=sesame-4711")
    hold.ask("logs", service="web")
    hold.cli("stop", "web")
    found = [(one["command"], one["outcome"]) for one in records(hold)]
    assert found == [("up", "ok"), ("restart", "ok"), ("logs", "ok"), ("stop", "ok")]
    restart = records(hold, "--command", "restart")[0]
    assert restart["role"] == "owner"
    assert restart["arguments"]["env_vars"] == ["API_TOKEN"]
    assert "sesame-4711" not in "".join(path.read_text() for path in audit_files(hold))


def test_a_failure_is_recorded_as_one(hold: Hold) -> None:
    """With the code that the caller got."""
    hold.cli("stop", "nobody", expect=3)
    assert records(hold)[-1]["outcome"] == "unknown_service"


def test_the_chain_goes_on_over_a_killed_supervisor(hold: Hold) -> None:
    """No record is lost, none is numbered twice."""
    hold.cli("stop", "web")
    kill_9(hold.supervisor_pid)
    hold.cli("start", "web")
    assert "whole" in hold.cli("audit", "--verify").stdout
    assert [one["seq"] for one in records(hold)][:3] == [1, 2, 3]


@pytest.mark.parametrize("cut", [slice(1, None), slice(0, -1), slice(0, 0)])
def test_a_removed_record_is_found(hold: Hold, cut: slice) -> None:
    """From the middle, from the end, or all of them; also after a restart of everything."""
    hold.cli("stop", "web")
    hold.cli("start", "web")
    hold.cli("down")
    path = audit_files(hold)[0]
    lines = path.read_text().splitlines(keepends=True)
    if cut == slice(1, None):
        del lines[1]
    else:
        lines = lines[cut]
    path.write_text("".join(lines))
    hold.cli("up", "-d")
    assert "NOT whole" in hold.cli("audit", "--verify", expect=1).stdout


def test_tokens_are_made_listed_and_revoked(hold: Hold) -> None:
    """Its text is shown once and stored nowhere."""
    made = hold.cli("token", "create", "ci", "--role", "viewer", "--service", "web").stdout.strip()
    assert made.startswith("holdfast_")
    path = Path(hold.cli("token", "path").stdout.strip())
    assert path.read_text().strip() != made, "the admin's token is another one"
    listed = hold.cli("token", "ls").stdout
    assert "ci" in listed
    assert made not in listed
    everything = "".join(
        path.read_text(errors="replace") for path in hold.state.rglob("*") if path.is_file()
    )
    assert made not in everything
    assert made.removeprefix("holdfast_")[:20] not in everything
    hold.cli("token", "revoke", "ci")
    assert "ci" not in hold.cli("token", "ls").stdout
    commands = [one["command"] for one in records(hold)]
    assert commands[-2:] == ["create_token", "revoke_token"]


def test_following_goes_on_over_a_killed_supervisor(hold: Hold) -> None:
    """After the last record that was told, without repeating one."""
    argv = hold.command("audit", "-f", "--json")
    with started(argv, cwd=hold.project, env=hold.environ) as following:
        read_until(following, b'"command": "up"')
        kill_9(hold.supervisor_pid)
        hold.cli("stop", "web")
        assert read_until(following, b'"command": "stop"').count(b'"command": "up"') == 0


def test_sessions_one_after_the_other_are_paced(hold: Hold) -> None:
    """Who opens and closes sessions without end is told to wait, and fills no record."""
    viewer = hold.ask("create_token", token_name="eyes", role="viewer")["text"]
    caller = {"token": viewer, "door": "rest"}

    def flood() -> None:
        for _ in range(300):
            opened = hold.ask("open_session", client="x", caller=caller)
            hold.ask("close_session", caller={"token": opened["token"], "door": "rest"})

    with pytest.raises(TooManyRequests) as failed:
        flood()
    assert failed.value.details["retry_after"] > 0
    hold.ask("open_session", client="somebody else")


def test_security_counts_go_on_over_a_killed_supervisor() -> None:
    """What was refused and locked down before is still counted after a kill -9."""
    with Hold() as hold:
        hold.write({"services": {"web": ["sleep", "1000"]}, "runtime_mode": "advanced"})
        hold.up()
        viewer = hold.ask("create_token", token_name="eyes", role="viewer")["text"]
        for _ in range(3):
            with pytest.raises(Refused):
                hold.ask("stop", services=["web"], caller={"token": viewer, "door": "rest"})
        hold.ask("lockdown", reason="a test")
        hold.ask("unlock")
        before = hold.ask("metrics")["security"]
        assert [one["count"] for one in before["refusals"]] == [3]
        assert before["lockdowns"] == 1
        stored = f"file:{hold.state / 'holdfast.db'}?mode=ro"
        query = "SELECT value FROM meta WHERE key = 'security_tallies'"

        def is_stored() -> bool:
            with closing(sqlite3.connect(stored, uri=True)) as database:
                return '"lockdowns":1' in str(database.execute(query).fetchone())

        wait_for(is_stored)
        kill_9(hold.supervisor_pid)
        assert hold.ask("metrics")["security"] == before
