"""Twenty services that print numbered lines, and the proof that nothing was lost."""

from __future__ import annotations

from typing import Any

from holdfast.logbook.entries import STREAMS
from holdfast.logbook.reader import Reader
from tests.harness import Hold, program, wait_for


class Load:
    """Numbered lines on pipes and terminals, each service with its own exit code."""

    def __init__(
        self,
        hold: Hold,
        count: int = 20,
        lines: int = 1200,
        interval: float = 0.003,
        **beside: dict[str, Any],
    ):
        """`beside` are further services; nothing is counted of them."""
        self.hold, self.lines = hold, lines
        self.names = [f"s{i}" for i in range(count)]
        numbered = {
            name: {
                "command": program("count.py", self.truth(name), lines, interval, i % 7, "err"),
                "terminal": i % 2 == 1,
                "restart_policy": "never",
                "start_seconds": 0.1,
            }
            for i, name in enumerate(self.names)
        }
        hold.services(**numbered, **beside)
        hold.up()
        self.pids = {name: hold.service(name)["pid"] for name in self.names}

    def truth(self, name: str) -> Any:
        return self.hold.folder / f"truth-{name}"

    def check_same_processes(self) -> None:
        """No pid has changed; each service is still in its first run."""
        services = self.hold.status()["services"]
        for name in self.names:
            service = services[name]
            assert service["run"] == 1, (name, service)
            assert service["pid"] in (self.pids[name], None), (name, service)
            assert service["restart_count"] == 0

    def check_nothing_lost(self, *, codes_known: bool = True) -> None:
        """Every line was recorded once, in order, and every exit code is right."""
        for i, name in enumerate(self.names):
            done = wait_for(
                lambda name=name: (
                    (s := self.hold.service(name))["pid"] is None
                    and s["status"] in ("exited", "failed")
                    and s
                ),
                60,
                f"{name} to end",
            )
            if codes_known:
                assert done["exit_code"] == i % 7, (name, done)
            else:
                assert done["exit_code"] in (i % 7, None), (name, done)
            wrote = self.truth(name).read_text().splitlines()
            assert len(wrote) == self.lines
            raw = self.hold.raw(name).replace(b"\r\n", b"\n").decode()
            assert sorted(raw.splitlines()) == sorted(wrote), name
            reader = Reader(str(self.hold.state / "logs"), name)
            for stream in STREAMS:
                lines = b"".join(reader.raw(stream=stream)).decode().split("\n")
                numbers = [int(line.split()[1]) for line in lines if line.strip()]
                assert numbers == sorted(numbers), (name, stream)
