"""The gate's connection to the line door."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.client import channel
from holdfast.client.channel import Caller, Channel
from holdfast.vocabulary.errors import TooManyRequests, UsageError


def test_one_token_does_not_use_up_what_all_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has many requests open is refused more; others are not."""
    monkeypatch.setattr(channel, "MAX_REQUESTS_PER_TOKEN", 3)

    gone: asyncio.Event

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    async def scene() -> None:
        nonlocal gone
        gone = asyncio.Event()
        path = str(tmp_path / "line.sock")
        server = await asyncio.start_unix_server(silent, path)
        shared, one, other = Channel(path), Caller("one", "rest"), Caller("other", "rest")

        def ask(who: Caller) -> asyncio.Task[channel.Frame]:
            return asyncio.ensure_future(shared.ask("wait", {}, who, is_repeatable=False))

        waiting = [ask(one) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await ask(one)
        with pytest.raises(UsageError):
            await shared.ask("stop", {"grace": float("nan")}, other, is_repeatable=False)
        waiting.append(ask(other))
        done, _ = await asyncio.wait(waiting, timeout=0.05)
        assert not done
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        again = ask(one)
        await asyncio.sleep(0)
        assert not again.done()
        again.cancel()
        await shared.close()
        await asyncio.wait_for(gone.wait(), 30)
        server.close()

    asyncio.run(scene())
