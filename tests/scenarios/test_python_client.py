"""Stories of programs that use the client library, from threads and from asyncio."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client
from holdfast.client.connection import ConnectionLost
from holdfast.vocabulary.command import Done
from holdfast.vocabulary.errors import NoDaemon, NotFound, UnknownService, UsageError
from holdfast.vocabulary.history import Events
from holdfast.vocabulary.output import Logs, SendInput
from holdfast.vocabulary.services import Outcomes, Restart
from tests.harness import PYTHON, Hold, kill_9, quick

SECONDS = 60.0
ECHO = "printf 'no end'; while read -r line; do printf '\\n%s' \"$line\"; done"
"""Each line that it prints is ended by the next one only."""


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as hold:
        hold.services(
            web=quick(stdin="pipe", command=["sh", "-c", "while read x; do echo $x; done"]),
            echo=quick(stdin="pipe", command=["sh", "-c", ECHO]),
            idle=quick(autostart=False),
        )
        hold.up()
        yield hold


@pytest.fixture(scope="module")
def other() -> Iterator[Hold]:
    """A second one, because a supervisor that is killed again and again is relaunched slowly."""
    with Hold() as hold:
        hold.services(web=quick())
        hold.up()
        yield hold


@pytest.fixture
def project(hold: Hold, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, seen from a program in the environment of its Holdfast."""
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, hold.environ[name])
    return hold.project


def send(client: Client, text: str, service: str = "web") -> None:
    data = base64.b64encode(f"{text}\n".encode()).decode()
    assert client.ask(SendInput(service=service, data=data)) == Done()


def test_the_module_costs_nothing_until_a_client_is_wanted() -> None:
    """`import holdfast` loads no other module of ours, and the names are there nevertheless."""
    program = (
        "import sys, holdfast; print([name for name in sys.modules if 'holdfast.' in name or "
        "name in ('msgspec', 'asyncio')]); from holdfast import AsyncClient, Client; "
        "print(Client.__name__, AsyncClient.__name__); holdfast.Other"
    )
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\nClient AsyncClient\n"
    assert "module 'holdfast' has no attribute 'Other'" in done.stderr


def test_what_people_do(project: Path) -> None:
    """Services are told, started, stopped, restarted and waited for, in the vocabulary's types."""
    with Client(project=project) as client:
        assert set(client.services()) >= {"web", "echo", "idle"}
        assert client.start("idle").services["idle"].outcome == "started"
        assert client.wait("idle", "ready").met
        pid = client.status("idle").pid
        answer: Outcomes = client.ask(Restart(services=["idle"]))
        assert answer.services["idle"].pid == client.status("idle").pid != pid
        assert client.stop("idle", grace=0).services["idle"].outcome == "stopped"
        assert not client.wait("idle", timeout=0.1).met
        found = [event.kind for event in client.events("idle")]
        assert {"process:started", "exit", "process:ended"} <= set(found)


def test_a_command_of_its_own(project: Path, tmp_path: Path) -> None:
    """`run` uses the program's folder and environment; following its run ends when it has ended,
    with the text that it left without an end."""
    script = "echo $GREETING; pwd; printf 'the end'"
    with Client(project=project) as client:
        client.run(
            ["sh", "-c", script],
            name="task",
            working_dir=tmp_path,
            environment={**os.environ, "GREETING": "hello"},
            restart_policy="never",
            wait=False,
        )
        texts = [line.text for line in client.logs("task", follow=True, run=-1)]
        assert texts == ["hello", str(tmp_path.resolve()), "the end"]
        assert [line.text for line in client.logs("task", tail=2)] == texts[1:]


def test_errors_are_those_of_the_vocabulary(project: Path, tmp_path: Path) -> None:
    """A wrong name, a wrong run, two addresses and a Holdfast that is not there each say so."""
    with Client(project=project) as client:
        with pytest.raises(UnknownService, match="nobody"):
            client.status("nobody")
        with pytest.raises(NotFound):
            list(client.logs("web", run=77))
    with Client(project=tmp_path) as client, pytest.raises(NoDaemon, match="nothing runs here"):
        client.services()
    with Client(socket=tmp_path / "none") as client, pytest.raises(NoDaemon, match="nobody"):
        client.services()
    with pytest.raises(UsageError):
        Client(project=project, socket=tmp_path)


def test_many_lines_come_in_pages(project: Path) -> None:
    """More lines than one answer holds arrive all, once and in order."""
    with Client(project=project) as client:
        client.run(["seq", "2500"], name="many", restart_policy="never", wait=False)
        client.wait("many", "gone")
        lines = [line.text for line in client.logs("many", tail=2400)]
        assert lines == [str(number) for number in range(101, 2501)]


def test_threads_share_a_client(project: Path) -> None:
    """Each asks on a connection of its own, so that one that waits keeps no other waiting."""
    with Client(project=project) as client, ThreadPoolExecutor(9) as threads:
        waiting = threads.submit(client.wait, "web", "log:from-a-thread", timeout=SECONDS)
        asked = [threads.submit(client.status, "web") for _ in range(200)]
        assert {answer.result().status for answer in asked} == {"running"}
        assert not waiting.done()
        send(client, "from-a-thread")
        assert waiting.result().line == "from-a-thread"


def test_followers_outlive_the_supervisor(hold: Hold, project: Path) -> None:
    """After kill -9 of the supervisor the same loops go on: no line and no event is lost or told
    twice, and reading commands are asked again."""
    with (
        Client(project=project) as client,
        closing(client.logs("web", follow=True, tail=1)) as lines,
    ):
        newest = client.ask(Events(limit=0)).last
        events = client.events("web", since=newest, follow=True)
        send(client, "one")
        assert client.wait("web", "log:one").met
        assert next(lines).text == "one"
        restarted = client.restart("web").services["web"].run_id
        seen = next(event for event in events if event.kind == "process:started")
        assert seen.run_id == restarted
        kill_9(hold.supervisor_pid)
        assert client.status("web").status == "running"
        send(client, "two")
        assert next(lines).text == "two"
        client.restart("web")
        again = next(event for event in events if event.kind == "process:started")
        assert again.seq > seen.seq
        assert again.run_id != restarted
        events.close()


def test_a_line_comes_when_it_is_whole(project: Path) -> None:
    """Text without an end is not told in pieces; a page of the log shows it."""
    with Client(project=project) as client:
        client.restart("echo")
        page = client.ask(Logs(service="echo", run=client.status("echo").run))
        lines = client.logs("echo", follow=True, run=-1)
        send(client, "next", "echo")
        assert next(lines).text == "no end"
        assert page.lines[-1:] == [] or page.unfinished == 1
        client.stop("echo")
        assert [line.text for line in lines] == ["next"]
        client.start("echo")


def test_asyncio(hold: Hold, project: Path) -> None:
    """The same from asyncio: many at once, a follower across kill -9, and a cancelled wait."""

    async def next_text(lines: AsyncIterator[object]) -> str:
        line = await asyncio.wait_for(anext(lines), SECONDS)
        return str(getattr(line, "text", None))

    async def story() -> None:
        async with AsyncClient(project=project) as client:
            found = await asyncio.gather(*(client.status("web") for _ in range(50)))
            assert {status.status for status in found} == {"running"}
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.wait("idle", timeout=SECONDS), 0.1)
            await asyncio.to_thread(send_from_elsewhere, "three")
            newest = (await client.ask(Events(limit=0))).last
            assert (await client.wait("web", "log:three")).met
            async with (
                aclosing(client.logs("web", follow=True, tail=1)) as lines,
                aclosing(client.events("web", since=newest, follow=True)) as events,
            ):
                assert await next_text(lines) == "three"
                happened = asyncio.ensure_future(anext(events))
                await asyncio.to_thread(send_from_elsewhere, "four")
                assert await next_text(lines) == "four"
                kill_9(hold.supervisor_pid)
                assert (await client.start("web")).services["web"].outcome == "already_running"
                await asyncio.to_thread(send_from_elsewhere, "five")
                assert await next_text(lines) == "five"
                await client.restart("web")
                assert (await asyncio.wait_for(happened, SECONDS)).service == "web"
            texts = [line.text async for line in client.logs("web", tail=2)]
            assert texts == ["four", "five"]

    def send_from_elsewhere(word: str) -> None:
        with Client(project=project) as client:
            send(client, word)

    asyncio.run(story())


def test_a_change_is_not_done_twice(other: Hold) -> None:
    """If the supervisor dies over a command that must not be repeated, the program is told so; what
    may be repeated is."""

    async def story() -> tuple[Outcomes | BaseException, Outcomes | BaseException]:
        async with AsyncClient(socket=other.runtime / "line.sock") as client:
            await client.services()
            supervisor = other.supervisor_pid
            os.kill(supervisor, signal.SIGSTOP)
            asking = asyncio.gather(
                client.restart("web"), client.start("web"), return_exceptions=True
            )
            await asyncio.sleep(0.1)
            kill_9(supervisor)
            return await asyncio.wait_for(asking, SECONDS)

    restarted, started = asyncio.run(story())
    assert isinstance(restarted, ConnectionLost)
    assert isinstance(started, Outcomes)
    assert started.services["web"].outcome in ("already_running", "started")


def test_a_socket_is_enough(other: Hold) -> None:
    """With the path of a line door nothing is looked for, and a new supervisor is found again."""
    with Client(socket=other.runtime / "line.sock") as client:
        assert client.status("web").status == "running"
        kill_9(other.supervisor_pid)
        assert client.status("web").status == "running"


def test_down_ends_what_is_followed(project: Path, hold: Hold) -> None:
    """A loop over logs or events ends without an error when Holdfast goes down."""
    with Client(project=project) as client:
        lines = client.logs("web", follow=True, tail=1)
        events = client.events(follow=True, limit=1)
        next(lines)
        next(events)
        hold.cli("down", "--now")
        list(lines)
        list(events)
        with pytest.raises(NoDaemon):
            client.services()
