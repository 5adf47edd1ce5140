"""An audit that was put back to an earlier moment, head and all, is found out by an anchor."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from holdfast.adapters import audit_anchors
from holdfast.adapters.audit_anchors import Anchors
from holdfast.adapters.audit_log import Head
from holdfast.vocabulary.specs.audit import AnchorSpec
from tests.harness import Hold, wait_for


def anchored(path: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in path.read_text().splitlines() if path.exists()]


@pytest.mark.parametrize("has_anchor", [True, False])
def test_a_rollback_of_log_and_head_together(has_anchor: bool) -> None:
    """With a file as anchor it is found at the next start and by --verify; without, it is not."""
    with Hold() as hold:
        file = hold.folder / "elsewhere" / "heads"
        file.parent.mkdir()
        anchor = {"audit": {"anchor": {"file": str(file), "every": "1s"}}}
        hold.write({"services": {"web": ["sleep", "1000"]}, **(anchor if has_anchor else {})})
        hold.up()
        hold.ask("create_token", token_name="before", role="viewer")
        assert hold.cli("audit", "--verify").returncode == 0
        hold.cli("down")
        shutil.copytree(hold.state, hold.folder / "copy")
        hold.up()
        hold.ask("create_token", token_name="evil", role="admin")
        last = hold.ask("audit", limit=1)["last"]
        if has_anchor:
            wait_for(lambda: max(anchored(file)) >= last)
        hold.cli("down")
        state = hold.state
        shutil.rmtree(state)
        shutil.copytree(hold.folder / "copy", state)
        hold.up()
        found = hold.cli("audit", "--verify", expect=None)
        assert (found.returncode == 0) is not has_anchor, found.stdout
        if has_anchor:
            assert "anchor" in found.stdout
            told = hold.cli("audit", "--verify", "--json", expect=None).stdout
            assert json.loads(told)["anchors"][0]["checked"] is True
            records = json.dumps(hold.ask("audit")["records"])
            assert "rolled back: the anchor knows" in records


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An address that fails once and then takes what it gets."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(500 if len(got) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/secret-path", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_other_machines_and_syslog_get_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By POST, again after a failure, and by a datagram; --verify names what it cannot compare."""
    monkeypatch.setattr(audit_anchors, "SYSLOG", str(tmp_path / "log"))
    monkeypatch.setattr(audit_anchors, "RETRY_SECONDS", 0.05)

    async def scene(url: str, got: list[bytes]) -> None:
        anchors = Anchors("mine", lambda: Head(7, "abc"), lambda why: None)
        anchors.use(AnchorSpec(syslog=True, url=url, every=1.0))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, lambda: wait_for(lambda: len(got) > 1))
        checked = await anchors.check()
        assert [one["anchor"] for one in checked.told] == [
            "syslog",
            url.removesuffix("/secret-path"),
        ]
        assert not any(one["checked"] for one in checked.told)
        await anchors.close()

    with collector() as (url, got), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(30)
        asyncio.run(scene(url, got))
        assert json.loads(got[1]).items() >= {"state": "mine", "seq": 7, "hash": "abc"}.items()
        assert b'holdfast: audit head {"state":"mine"' in log.recv(4096)


def test_an_anchor_that_fails_stops_nothing(tmp_path: Path) -> None:
    """A file that cannot be written is said to be so, and is tried with the next head."""

    async def scene() -> None:
        anchors = Anchors("mine", lambda: Head(1, "abc"), lambda why: None)
        anchors.use(AnchorSpec(file=str(tmp_path / "no" / "heads"), every=1.0))
        checked = await anchors.check()
        assert checked.told[0]["checked"] is False
        (tmp_path / "no").mkdir()
        await anchors.close()
        assert (await anchors.check()).heads == {1: "abc"}

    asyncio.run(scene())


def test_the_first_hash_of_a_number_counts(tmp_path: Path) -> None:
    """Lines that an attacker adds change nothing; lines of other projects are passed over."""
    path = tmp_path / "heads"
    for state, number, digest in (("a", 1, "x"), ("b", 1, "y"), ("a", 2, "z"), ("a", 1, "forged")):
        line = {"state": state, "seq": number, "hash": digest, "time": 1.0}
        audit_anchors.append(str(path), json.dumps(line).encode())
    with path.open("a") as file:
        file.write("nonsense\n")
    assert audit_anchors.read(str(path), "a") == {1: "x", 2: "z"}
