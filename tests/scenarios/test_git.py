"""An assistant searches, changes and commits; everything can be had back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.git.test_swapped_folders import swapping
from tests.harness import Hold, kill_9, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples/git"


def git(hold: Hold, *words: str) -> str:
    env = {**os.environ, "HOME": str(hold.folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *words], cwd=hold.project, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as hold:
        for name in ("holdfast.yaml", "server.sh"):
            shutil.copy(EXAMPLE / name, hold.project / name)
        (hold.folder / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")
        git(hold, "init", "-q", "--initial-branch=main")
        git(hold, "add", "server.sh")
        git(hold, "commit", "-qm", "first")
        hold.up()
        yield hold


class Assistant:
    """A session with rights to change files and commit."""

    def __init__(self, hold: Hold, *commands: str) -> None:
        made = hold.ask(
            "create_token",
            token_name=f"a{len(commands)}",
            role="agent",
            commands=["open_session", *commands],
        )
        opener = {"token": made["text"], "door": "mcp"}
        opened = hold.ask("open_session", client="assistant", caller=opener)
        self.session: str = opened["session"]["session"]
        self.caller = {"token": opened["token"], "door": "mcp"}
        self.hold = hold

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        return self.hold.ask(command, caller=self.caller, **fields)


def test_an_assistant_works_and_everything_can_be_had_back(hold: Hold) -> None:
    """Search, change, commit; a checkpoint was made before; a new supervisor knows it."""
    rights = ("write_file", "git_add", "git_commit", "restore_checkpoint", "status", "search*",
              "git_*", "checkpoints", "read_file", "logs")  # fmt: skip
    assistant = Assistant(hold, *rights)
    wait_for(lambda: assistant.ask("search_logs", pattern="listening")["hits"])
    (hit,) = assistant.ask("search", pattern="listening", path="server.sh")["hits"]
    assert (hit["path"], hit["line"]) == ("server.sh", 1)
    (hold.project / "notes.txt").write_text("untracked, by a person\n")
    etag = assistant.ask("read_file", path="server.sh")["etag"]
    assistant.ask("write_file", path="server.sh", content="echo broken\n", etag=etag)
    kill_9(hold.supervisor_pid)
    result = assistant.ask("git_commit", message="by an assistant", paths=["server.sh"])
    assert result["changed"]
    assert assistant.ask("git_commit", message="again")["message"] == "nothing to commit"
    (made,) = hold.ask("checkpoints", session=assistant.session)["checkpoints"]
    assert git(hold, "show", f"{made['commit']}:server.sh").startswith("echo listening")
    assert git(hold, "show", f"{made['commit']}:notes.txt") == "untracked, by a person\n"
    restored = assistant.ask("restore_checkpoint", checkpoint=made["id"])
    assert restored["changed"]
    assert (hold.project / "server.sh").read_text().startswith("echo listening")
    assert git(hold, "log", "-1", "--format=%s").strip() == "by an assistant"
    hold.ask("restore_checkpoint", checkpoint=restored["saved"]["id"])
    assert (hold.project / "server.sh").read_text() == "echo broken\n"


def test_an_assistant_does_what_it_was_given(hold: Hold) -> None:
    """Looking is one thing, committing another."""
    assistant = Assistant(hold, "git_status", "git_add")
    assert assistant.ask("git_status")["branch"] == "main"
    for command, fields in (
        ("git_commit", {"message": "m"}), ("git_switch", {"branch": "x", "create": True}),
        ("git_stash", {}), ("restore_checkpoint", {}), ("git_tag", {"tag": "x"}),
    ):  # fmt: skip
        with pytest.raises(HoldfastError, match="refused"):
            assistant.ask(command, **fields)


def test_who_is_limited_to_some_paths_sees_no_others(hold: Hold) -> None:
    """In searches, differences and commits."""
    (hold.project / "docs").mkdir(exist_ok=True)
    (hold.project / "docs/a.txt").write_text("needle\n")
    made = hold.ask("create_token", token_name="writer", role="operator", paths=["docs/**", "docs"])
    caller = {"token": made["text"], "door": "rest"}
    found = hold.ask("search", pattern="needle", path="docs", caller=caller)
    assert [hit["path"] for hit in found["hits"]] == ["docs/a.txt"]
    hold.ask("git_diff", paths=["docs/a.txt"], caller=caller)
    for command, fields in (
        ("search", {"pattern": "x"}), ("search", {"pattern": "x", "path": "server.sh"}),
        ("git_diff", {}), ("git_diff", {"paths": ["server.sh"]}), ("git_status", {}),
        ("git_commit", {"message": "m"}), ("git_commit", {"message": "m", "paths": ["server.sh"]}),
        ("git_show", {}), ("git_log", {}), ("checkpoint", {}), ("restore_checkpoint", {}),
        ("git_stash", {}), ("git_switch", {"branch": "x", "create": True}),
    ):  # fmt: skip
        with pytest.raises(HoldfastError, match="refused"):
            hold.ask(command, caller=caller, **fields)
    assert hold.ask("git_commit", message="m", paths=["docs/a.txt"], caller=caller)["changed"]


def test_reads_and_changes_are_on_record(hold: Hold) -> None:
    """Who searched for what, and who committed; without secrets."""
    hold.ask("search", pattern="password=hunter2")
    hold.ask(
        "git_tag", tag="recorded", message="token=holdfast_0123456789abcdef_secretsecretsecret"
    )
    records = hold.ask("audit", limit=50)["records"]
    told = {record["command"]: str(record["arguments"]) for record in records}
    assert "recorded" in told["git_tag"]
    assert "hunter2" not in str(told)
    assert "secretsecret" not in str(told)
    assert "search" in told


def test_who_hangs_up_leaves_no_search_behind(hold: Hold) -> None:
    """Ripgrep ends with the connection of who asked."""
    with (hold.project / "big.txt").open("wb") as file:
        for _ in range(64):
            file.write(b"ab" * 500_000 + b"\n")
    from holdfast.client.connection import Connection

    connection = Connection(str(hold.runtime / "line.sock"))
    connection.send("search", pattern="(ab|a.)+c$", path="big.txt")
    connection.close()

    def searching() -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"/rg") and b"./big.txt" in words:
                found.append(entry.parent.name)
        return found

    wait_for(lambda: not searching(), what="the search to end")
    assert hold.ask("git_status")["branch"] == "main"


@pytest.mark.skipif(sys.platform != "linux", reason="swaps by renameat2")
def test_a_folder_that_is_swapped_for_a_link_leads_nowhere_else(hold: Hold) -> None:
    """Through the real keeper: nothing of a repository outside is told, tagged or changed."""
    inside, outside = hold.project / "nested", hold.folder / "outside"
    for folder, text in ((inside, "open"), (outside, "hunter2")):
        folder.mkdir()
        (folder / "a.txt").write_text(f"{text}\n")
        git(hold, "-C", str(folder), "init", "-q", "--initial-branch=main", "--template=")
        git(hold, "-C", str(folder), "add", "a.txt")
        git(hold, "-C", str(folder), "commit", "-qm", text)
    link = hold.project / "link"
    link.symlink_to(outside)
    answered = 0
    with swapping(inside, link):
        for number in range(4):
            for name, fields in (
                *(("git_log", {}), ("git_show", {}), ("git_status", {}), ("git_branches", {})),
                *(("git_tag", {"tag": f"v{number}"}), ("git_add", {"paths": ["nested"]})),
            ):
                try:
                    said = str(hold.ask(name, repository="nested", **fields))
                    answered += 1
                except HoldfastError as error:
                    said = f"{error.message} {error.hint}"
                assert "hunter2" not in said, name
    assert answered
    assert git(hold, "-C", str(outside), "tag") == ""
    assert git(hold, "-C", str(outside), "status", "--porcelain") == ""
    link.unlink()
    shutil.rmtree(inside)
