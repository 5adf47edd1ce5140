"""`/ws` of the gate that the supervisor keeps, and whose rights are a supervised process's."""

from __future__ import annotations

import asyncio

from tests.gate.test_kept import HttpHold
from tests.gate.ws.client import Place, Ws
from tests.harness import kill_9, program


def test_viewers_find_it_again() -> None:
    """The gate is killed, then the supervisor: the same port, the same place, every line once."""
    with HttpHold() as hold:
        argv = program("count.py", hold.folder / "truth", 2000, 0.002, 0)
        services = {"web": {"command": argv, "restart_policy": "never"}}
        hold.write({"http_port": hold.port, "services": services})
        hold.up()
        place = Place(hold.port, (hold.state / "admin.token").read_text().strip())
        seen, cursor = b"", "P0"

        async def look(is_over: bool) -> None:
            nonlocal seen, cursor
            ws = await Ws.open(place)
            await ws.watch("web", cursor=cursor)
            if not is_over:
                kill_9(hold.gate_pid())
                await ws.closed()
            while True:
                frames = [it for it in ws.kept if isinstance(it, dict)]
                for frame in frames:
                    if frame["event"] == "output":
                        seen += frame["data"]["data"]["content"].encode()
                        cursor = frame["data"]["cursor"]
                ws.kept.clear()
                if not is_over or any(
                    it["event"] == "status" and it["data"]["data"]["state"] == "completed"
                    for it in frames
                ):
                    break
                ws.kept.append(await ws.frame(lambda it: True))
            await ws.socket.close()

        async def story() -> None:
            await look(is_over=False)
            kill_9(hold.supervisor_pid)
            await look(is_over=True)

        asyncio.run(asyncio.wait_for(story(), 60))
        assert seen == (hold.folder / "truth").read_bytes()
