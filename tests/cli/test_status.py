"""How `status` looks, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.status import render
from holdfast.cli.terminal.screen import Paint
from tests.cli.fake_daemon import FakeDaemon, service

HEAVY = [
    "argparse", "asyncio", "dataclasses", "inspect", "logging", "msgspec", "psutil", "socket",
    "subprocess", "yaml", "holdfast.vocabulary.codec", "holdfast.vocabulary.commands",
    "holdfast.logbook", "holdfast.client.launch", "holdfast.client.keeper_connection",
]  # fmt: skip

PLAIN = Paint(is_on=False)


def answer(**services: object) -> dict[str, object]:
    return {"services": services}


def test_points_at_the_log_when_there_is_one() -> None:
    """Without a supervisor, what failed is explained by its log, or by its line alone."""
    lines = render(answer(web=service("failed", log_bytes=12)), PLAIN, None)
    assert lines[-1] == "why? holdfast logs web --tail 20"
    lines = render(answer(web=service("failed", log_bytes=0)), PLAIN, None)
    assert not any("why?" in line for line in lines)


def test_columns_are_aligned() -> None:
    """Each column begins at the same place in every line."""
    lines = render(
        answer(
            web=service(cpu_percent=12.5, memory_mb=41.94),
            worker=service(
                "backoff", reason="exit 1", next_start_in=8.2, restart_count=3, exit_code=1
            ),
        ),
        PLAIN,
        None,
    )
    assert lines[:3] == [
        "SERVICE  STATE    PID   UPTIME  RESTARTS  CPU    MEMORY    DETAIL",
        "web      running  4242  3m12s   0         12.5%  40.0 MiB",
        "worker   backoff  -     -       3         -      -         exit 1, restarting in 8 s",
    ]


def test_every_restart_is_shown_by_cause() -> None:
    """Not only the automatic ones in a row, which the policy counts."""
    one = service(restart_count=2, restarts={"failure": 4, "request": 1})
    assert "5 (4 failure, 1 request)" in render(answer(web=one), PLAIN, None)[1]


def test_a_reason_that_says_it_all_is_not_repeated() -> None:
    """The time to the next start is told once."""
    reason = "exit 1, restarting in 8 s (attempt 3 of 10)"
    shown = render(answer(db=service("backoff", reason=reason, next_start_in=7.9)), PLAIN, None)
    assert shown[1].endswith(reason)


@pytest.mark.parametrize("columns", [30, 50, 70, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    """Long reasons are cut or moved to their own line, never wrapped by the terminal."""
    reason = "entering directory /a/very/long/path/that/does/not/exist: No such file or directory"
    shown = render(answer(web=service("failed", reason=reason)), PLAIN, columns)
    limit = max(columns, len("SERVICE  STATE    PID   UPTIME  RESTARTS  CPU  MEMORY"))
    assert max(map(len, shown)) <= limit
    assert any("entering" in line for line in shown)


def test_states_have_colours_only_when_wanted() -> None:
    """Colour is around the state, and only if it is on."""
    lines = render(answer(web=service()), Paint(is_on=True), None)
    assert "\x1b[32mrunning\x1b[0m" in lines[1]


def test_no_colour_in_a_pipe(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal there is no escape sequence; --color always asks for them."""
    assert main(["status"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert main(["status", "--color", "always"]) == 0
    assert "\x1b" in capsys.readouterr().out


def test_json_is_the_answer_as_it_came(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """--json passes the shape of the vocabulary on, unchanged."""
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == daemon.answers["status"]


def test_the_hot_path_imports_nothing_heavy(daemon: FakeDaemon, project: Path) -> None:
    """status asks and renders without any heavy module."""
    code = (
        "import sys\n"
        "from holdfast.cli.main import main\n"
        "assert main(['status']) == 0\n"
        f"print('HEAVY', [name for name in {HEAVY} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True
    )
    assert "web" in done.stdout
    assert "HEAVY []" in done.stdout


def test_a_reader_that_leaves_is_no_error(daemon: FakeDaemon, project: Path) -> None:
    """`holdfast status | head -0` says nothing on standard error."""
    daemon.answers["status"] = answer(**{f"s{n}": service() for n in range(3000)})
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "status"],
        cwd=project, stdout=writer, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )  # fmt: skip
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 141
