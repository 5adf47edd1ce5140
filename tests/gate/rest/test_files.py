"""Files over HTTP: the same commands, and each refusal with its own status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.gate.conftest import Gate
from tests.harness import Hold


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        roots = {"project": {"path": ".", "write": True}}
        made.write({"services": {"web": ["sleep", "1000"]}, "files": {"roots": roots}})
        (made.project / "a.txt").write_text("one\ntwo\n")
        made.up()
        yield made


def test_files_over_http(gate: Gate, hold: Hold) -> None:
    """Read, edited, patched and undone; a conflict is 409, a denied file 403, none at all 404."""
    found = gate.get("/api/files/content?path=a.txt&offset=2")
    assert (found["content"], found["first_line"]) == ("two\n", 2)
    assert gate.get("/api/files")["entries"][0]["path"] == "a.txt"
    edit: dict[str, Any] = {"path": "a.txt", "edits": [{"old": "two", "new": "2"}]}
    done = gate.post("/api/files/edit", {**edit, "etag": found["etag"]})
    assert (hold.project / "a.txt").read_text() == "one\n2\n"
    refused = gate.refused(409, "POST", "/api/files/edit", body=edit)
    assert (refused["code"], refused["details"]["edit"]) == ("conflict", 1)
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-2\n+zwei\n"
    gate.post("/api/files/patch", {"patch": patch})
    assert gate.get("/api/files/changes")["changes"][1]["change"] == done["change"]
    gate.post("/api/files/undo")
    gate.post("/api/files/write", {"path": "b.txt", "content": "b"})
    assert (hold.project / "a.txt").read_text() == "one\n2\n"
    for path, status, code in (
        ("none.txt", 404, "not_found"),
        ("../x", 403, "refused"),
        ("%2Fetc%2Fpasswd", 403, "refused"),
        ("holdfast.json", 403, "refused"),
        ("a%00b", 422, "usage"),
    ):
        target = f"/api/files/content?path={path}"
        assert gate.refused(status, "GET", target)["code"] == code
