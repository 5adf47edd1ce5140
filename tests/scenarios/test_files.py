"""Files through a real Holdfast: the verb, tokens limited to paths, the record, and kill −9."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import Conflict, HoldfastError, NotFound, Refused, UsageError
from tests.harness import Hold, kill_9, wait_for

SECRET = "sesame-4711"


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        roots = {"project": {"path": ".", "write": True}, "docs": {"path": "../docs"}}
        made.write({"services": {"web": ["sleep", "1000"]}, "files": {"roots": roots}})
        (made.folder / "docs").mkdir()
        (made.folder / "docs" / "guide.md").write_text("# guide\n")
        (made.project / "src").mkdir()
        (made.project / "src" / "app.py").write_text("port = 1\nname = 'shop'\n")
        made.up()
        yield made


def records(hold: Hold) -> list[dict[str, Any]]:
    return [json.loads(line) for line in hold.cli("audit", "--json").stdout.splitlines()]


def by_token(hold: Hold, token: str, command: str, **fields: Any) -> Any:
    """As a caller of the gate with this token."""
    connection = Connection(str(hold.runtime / "line.sock"))
    try:
        return connection.ask(command, caller={"token": token, "door": "rest"}, **fields)
    finally:
        connection.close()


def test_the_verb(hold: Hold) -> None:
    """Read, list, edit, patch, undo, from wherever one stands in the project."""
    below = hold.project / "src"
    assert hold.cli("files", "read", "app.py", cwd=below).stdout == "port = 1\nname = 'shop'\n"
    assert hold.cli("files", "read", "docs:guide.md").stdout == "# guide\n"
    assert hold.cli("files", "ls", "--depth", "2").stdout.splitlines() == [
        "holdfast.json (denied)", "src/", "src/app.py",
    ]  # fmt: skip
    told = hold.cli("files", "edit", "src/app.py", "--old", "port = 1", "--new", "port = 2").stdout
    assert "-port = 1\n+port = 2\n" in told
    patch = hold.folder / "p.diff"
    patch.write_text("--- /dev/null\n+++ b/src/new.py\n@@ -0,0 +1 @@\n+x = 1\n")
    assert hold.cli("files", "patch", patch).stdout == "src/new.py: created +1 -0\n"
    made = hold.json("files", "changes")["changes"]
    assert [one["command"] for one in made] == ["apply_patch", "edit_file"]
    hold.cli("files", "undo")
    assert not (hold.project / "src" / "new.py").exists()
    assert hold.cli("files", "undo", "app.py", cwd=below).stdout.endswith("app.py: replaced\n")
    assert "port = 1" in (hold.project / "src" / "app.py").read_text()
    assert hold.cli("files", "undo", expect=3).stderr.startswith("holdfast: there is no change")
    done = hold.cli("files", "edit", "src/app.py", "--old", "o", "--new", "b", expect=1)
    assert "places" in done.stderr
    assert hold.cli("files", "read", "../../etc/passwd", expect=5).stderr
    assert hold.cli("files", "write", "docs:x.md", expect=5).stderr.count("read-only") == 1
    assert hold.cli("files", "turn", expect=2).stderr


def test_what_is_on_record(hold: Hold) -> None:
    """Path, size and etags of every read and change; content never, nor a secret in it."""
    hold.ask("write_file", path="src/key.py", content=f"token = '{SECRET}'\n")
    etag = hold.ask("read_file", path="src/key.py")["etag"]
    hold.ask("read_file", path="src/key.py")  # from memory by now, and on record as well
    done = hold.ask("edit_file", path="src/key.py", edits=[{"old": SECRET, "new": f"{SECRET}-2"}])
    patch = f"--- a/src/key.py\n+++ b/src/key.py\n@@ -1 +1 @@\n-token = '{SECRET}-2'\n+{SECRET}\n"
    hold.ask("apply_patch", patch=patch)
    hold.ask("undo_files")
    with pytest.raises(Refused):
        hold.ask("read_file", path="holdfast.json")
    found = records(hold)[1:]
    assert [(one["command"], one["outcome"]) for one in found] == [
        ("write_file", "ok"), ("read_file", "ok"), ("read_file", "ok"), ("edit_file", "ok"),
        ("apply_patch", "ok"), ("undo_files", "ok"), ("read_file", "refused"),
    ]  # fmt: skip
    for read in found[1:3]:
        assert read["result"] == {"path": "src/key.py", "etag": etag, "bytes": 22}
    edited = found[3]["result"]
    assert (edited["etag_before"], edited["etag"]) == (etag, done["etag"])
    assert found[4]["result"]["files"][0]["path"] == "src/key.py"
    kept = [p for p in hold.state.rglob("*") if p.is_file() and "objects" not in p.parts]
    assert not [p for p in kept if SECRET.encode() in p.read_bytes()]


def test_a_token_is_limited_to_its_paths(hold: Hold) -> None:
    """By the real place of a file, however it is spelt; patches and undo included."""
    (hold.project / "other.txt").write_text("x\n")
    token = hold.ask("create_token", token_name="some", role="operator", paths=["src/**"])["text"]
    for path in (
        "src/app.py",
        "./src//app.py",
        str(hold.project / "src/app.py"),
        "project:src/app.py",
    ):
        assert by_token(hold, token, "read_file", path=path)["path"] == "src/app.py"
    assert by_token(hold, token, "list_files", path="src")["entries"]
    refused: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "other.txt"}),
        ("read_file", {"path": "docs:guide.md"}),
        ("read_file", {"path": "uri:other%2Etxt"}),
        ("list_files", {}),
        ("write_file", {"path": "made.txt", "content": "x"}),
        ("edit_file", {"path": "other.txt", "edits": [{"old": "x", "new": "y"}]}),
        ("undo_files", {}),
        ("file_changes", {}),
        ("apply_patch", {"patch": "--- a/other.txt\n+++ b/other.txt\n@@ -1 +1 @@\n-x\n+y\n"}),
        (
            "apply_patch",
            {"patch": "diff --git a/other.txt b/src/o\nrename from other.txt\nrename to src/o\n"},
        ),
    ]
    for command, fields in refused:
        with pytest.raises(Refused, match="limited to src"):
            by_token(hold, token, command, **fields)
    long = "--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-" + "x" * 600_000 + "\n+y\n"
    with pytest.raises(UsageError, match="at most 512 KiB"):
        by_token(hold, token, "apply_patch", patch=long)
    by_token(hold, token, "write_file", path="src/made.txt", content="x")
    assert by_token(hold, token, "undo_files", path="src/made.txt")["files"]
    assert sorted(p.name for p in hold.project.iterdir()) == ["holdfast.json", "other.txt", "src"]
    eyes = hold.ask("create_token", token_name="eyes", role="viewer")["text"]
    with pytest.raises(Refused, match="viewer"):
        by_token(hold, eyes, "write_file", path="x", content="x")


def test_two_writers_of_one_file(hold: Hold) -> None:
    """Both at once with the same etag: one is done, the other is told; many edits all arrive."""
    etag = hold.ask("read_file", path="src/app.py")["etag"]
    connection = Connection(str(hold.runtime / "line.sock"))
    fields = {"path": "src/app.py", "etag": etag}
    asked = [connection.send("write_file", content=f"{n}\n", **fields) for n in range(2)]
    outcomes = []
    for request in asked:
        try:
            outcomes.append(connection.answer(request, 60)["outcome"])
        except Conflict:
            outcomes.append("conflict")
    assert sorted(outcomes) == ["conflict", "replaced"]
    text = "".join(f"<{n}>\n" for n in range(30))
    hold.ask("write_file", path="many", content=text)
    asked = [
        connection.send("edit_file", path="many", edits=[{"old": f"<{n}>", "new": f"[{n}]"}])
        for n in range(30)
    ]
    for request in asked:
        connection.answer(request, 60)
    connection.close()
    assert (hold.project / "many").read_text() == text.replace("<", "[").replace(">", "]")


def test_nobody_waits_for_a_pipe(hold: Hold) -> None:
    """Asked for a pipe without a writer, everybody else is answered at once."""
    os.mkfifo(hold.project / "pipe")
    began = time.monotonic()
    for _ in range(8):
        with pytest.raises(Refused, match="pipe"):
            hold.ask("read_file", path="pipe")
    hold.ask("status")
    assert time.monotonic() - began < 60
    with pytest.raises(NotFound):
        hold.ask("read_file", path="nothing")


def test_killed_in_the_middle_of_a_patch(hold: Hold) -> None:
    """The next supervisor takes back what was done of it, and says so; or all of it was done."""
    count = 150
    for number in range(count):
        (hold.project / f"f{number}").write_text("old\n")
    patch = "".join(f"--- a/f{n}\n+++ b/f{n}\n@@ -1 +1 @@\n-old\n+new\n" for n in range(count))
    pending = hold.state / "files" / "pending"
    supervisor = hold.supervisor_pid
    connection = Connection(str(hold.runtime / "line.sock"))
    connection.send("apply_patch", patch=patch)
    wait_for(lambda: list(pending.glob("*.json")), what="the patch to begin")
    kill_9(supervisor)
    connection.close()
    wait_for(lambda: hold.supervisor_pid != supervisor)
    assert hold.ask("read_file", path="f0")["content"] in ("old\n", "new\n")
    found = {(hold.project / f"f{n}").read_text() for n in range(count)}
    assert len(found) == 1
    assert not [p for p in hold.project.iterdir() if ".tmp" in p.name]
    state = hold.ask("file_changes")["changes"][0].get("state", "done")
    assert state == ("rolled_back" if found == {"old\n"} else "done")
    if state == "rolled_back":
        told = wait_for(lambda: taken_back(hold), what="the event")
        assert told[0]["data"]["left"] == []
        assert len(told[0]["data"]["paths"]) == count


def taken_back(hold: Hold) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = hold.ask("events", limit=200)["events"]
    return [one for one in events if one["kind"] == "files:taken_back"]


def test_without_configuration_the_project_is_read_only() -> None:
    """Files can be looked at, secrets cannot, and nothing is changed."""
    with Hold() as hold:
        hold.services(web=["sleep", "1000"])
        (hold.project / "a.txt").write_text("x\n")
        (hold.project / ".env").write_text(f"TOKEN={SECRET}\n")
        hold.up()
        assert hold.ask("read_file", path="a.txt")["root"] == "project"
        for command, fields in (
            ("read_file", {"path": ".env"}),
            ("write_file", {"path": "a.txt", "content": "y", "etag": "*"}),
            ("read_file", {"path": str(hold.state / "admin.token")}),
        ):
            with pytest.raises(HoldfastError) as caught:
                hold.ask(command, **fields)
            assert caught.value.code == "refused"
        assert Path(hold.project / "a.txt").read_text() == "x\n"
