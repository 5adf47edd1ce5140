"""Blocks of output: every byte once, from whatever place a viewer comes back to."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.client.channel import Channel
from holdfast.gate.ws.frames import BINARY
from holdfast.gate.ws.output_blocks import (
    BlockReader,
    Item,
    StreamSpan,
    binary_frames,
    frame_bodies,
    items_after,
)
from holdfast.gate.ws.output_feeds import OutputFeeds
from holdfast.logbook import cursors
from holdfast.logbook.cursors import BEGINNING, Cursor
from holdfast.logbook.entries import STREAMS
from holdfast.logbook.lines import torn_bytes
from holdfast.secrets.log_redaction import HELD_BYTES
from holdfast.vocabulary.errors import Failed
from tests.logbook.stage import SERVICE, Stage

TEXTS = st.sampled_from(["plain\n", "größer", "€", "🦊🦊", "x"]).map(str.encode) | st.just(
    b"\xe2\x82"
)
CHUNKS = st.lists(
    st.tuples(st.integers(0, 1), TEXTS | st.binary(min_size=1, max_size=12)), max_size=60
)


def told(text: str) -> tuple[int, bytes, Cursor]:
    """Stream, bytes and cursor of an output frame."""
    message: Any = json.loads('{"data":{' + text)["data"]
    data = message["data"]
    known = data["encoding"] == "base64"
    content = base64.b64decode(data["content"]) if known else data["content"].encode()
    assert message["bytes"] == len(content)
    return data["stream"] == "stderr", content, cursors.decode(message["cursor"])


@given(st.text(), st.integers(0, 100))
def test_an_unfinished_character_is_recognised(text: str, cut: int) -> None:
    """Whatever is cut off, the rest is text."""
    part = text.encode("utf-8", "ignore")[:cut]
    part[: len(part) - torn_bytes(part)].decode()


@given(st.binary(max_size=20))
def test_what_waits_is_short(data: bytes) -> None:
    """At most the bytes of a character but its last."""
    assert 0 <= torn_bytes(data) <= 3


@given(CHUNKS, st.integers(0, 500), st.integers(0, 500))
def test_frames_tell_every_byte_behind_a_place_once(
    chunks: list[tuple[int, bytes]], out: int, err: int
) -> None:
    """However the streams are mixed, and however many frames are put together."""
    items: list[Item] = []
    position, place, wanted = 0, Cursor(out, err), [b"", b""]
    for stream, data in chunks:
        end = position + len(data)
        items.append(StreamSpan(stream, 1.0, position, data, Cursor(end, end)))
        wanted[stream] += data[max(0, place[stream] - position) :]
        position = end
    found, places = [b"", b""], list(place)
    for body in frame_bodies(items_after(items, place), place):
        stream, content, _ = told(body.text)
        found[stream] += content
    assert found == wanted
    in_bytes = [b"", b""]
    for frame in binary_frames(items_after(items, place), 7):
        kind, number, offset = BINARY.unpack_from(frame)
        assert number == 7
        assert offset >= places[kind - 1]
        in_bytes[kind - 1] += frame[BINARY.size :]
        places[kind - 1] = offset + len(frame) - BINARY.size
    assert in_bytes == wanted


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(CHUNKS, st.lists(st.integers(1, 40), min_size=1, max_size=20), st.data())
def test_a_viewer_comes_back_at_any_cursor(
    chunks: list[tuple[int, bytes]], limits: list[int], data: st.DataObject
) -> None:
    """No gap and no duplicate, wherever it was cut off, also inside a character or a block."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder)
        try:
            wanted, found, place, turn = [b"", b""], [b"", b""], BEGINNING, 0
            for stream, content in chunks:
                stage.say(content, STREAMS[stream])
                wanted[stream] += content
            stage.recorder.flush()
            while True:
                reading = BlockReader(folder, SERVICE, place)
                is_cut = False
                while not is_cut:
                    turn += 1
                    block = reading.read(limits[turn % len(limits)], is_last=True)
                    if block is None:
                        break
                    assert block.size <= HELD_BYTES + limits[turn % len(limits)]
                    bodies = block.frame_bodies()
                    shown = data.draw(st.integers(1, len(bodies)))
                    for body in bodies[:shown]:
                        number, content, place = told(body.text)
                        found[number] += content
                    is_cut = shown < len(bodies) or data.draw(st.booleans())
                reading.close()
                if not is_cut:
                    break
            assert found == wanted
        finally:
            stage.close()


def test_reading_nothing(tmp_path: Any) -> None:
    """A service that has printed nothing has no files."""
    reading = BlockReader(str(tmp_path), SERVICE, BEGINNING)
    assert reading.read(100) is None
    assert not reading.holds
    reading.close()


def test_a_log_that_cannot_be_read_is_said(tmp_path: Any) -> None:
    """Not taken for the end of a connection."""

    async def story() -> None:
        feeds = OutputFeeds(lambda: Channel(str(tmp_path)))
        with pytest.raises(Failed, match="cannot be read"):
            await feeds.in_thread(os.listdir, str(tmp_path / "nowhere"))
        feeds._threads.shutdown()

    asyncio.run(story())
