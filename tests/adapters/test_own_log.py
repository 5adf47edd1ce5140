"""Holdfast's own log: levels of modules and packages, two styles, no secret."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import pkgutil
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.adapters import own_log
from holdfast.adapters.own_log import facts
from holdfast.system.places import generations


@pytest.fixture
def path(own_log_path: Path) -> Path:
    own_log.open_log(str(own_log_path))
    return own_log_path


@pytest.fixture
def held(path: Path) -> Path:
    own_log.open_log(str(path), is_held=True)
    logging.getLogger("holdfast.a").info("first")
    assert path.read_text() == ""
    return path


def test_the_first_lines_have_the_form_that_is_asked_for(held: Path) -> None:
    """They wait for the configuration, and are written in their order and with their times."""
    own_log.set_style("json")
    logging.getLogger("holdfast.a").info("second")
    lines = [json.loads(line) for line in held.read_text().splitlines()]
    assert [line["message"] for line in lines] == ["first", "second"]
    assert lines[0]["time"] < lines[1]["time"]


def test_the_first_lines_are_those_that_are_asked_for(held: Path) -> None:
    """What the configuration does not want to hear of is not written because it came too early."""
    own_log.set_level("error")
    own_log.set_style("human")
    logging.getLogger("holdfast.a").error("second")
    assert [line.split()[-1] for line in held.read_text().splitlines()] == ["second"]


@pytest.mark.parametrize("end", ["told", "a warning", "many", "closed"])
def test_the_first_lines_do_not_wait_for_ever(held: Path, end: str) -> None:
    """Without a configuration, with trouble, when they are many, at the end: they are written."""
    log = logging.getLogger("holdfast.a")
    if end == "told":
        own_log.release()
    elif end == "a warning":
        log.warning("trouble")
    elif end == "many":
        for number in range(own_log.MOST_HELD):
            log.info("line %d", number)
    else:
        logging.getLogger("holdfast").handlers[0].close()
    assert "first" in held.read_text().splitlines()[0]


def at(name: str) -> int:
    return logging.getLogger(f"holdfast.{name}").getEffectiveLevel()


def test_a_package_has_a_level(path: Path) -> None:
    """`engine=debug` means all modules of the engine, and nothing else."""
    importlib.import_module("holdfast.engine.roster")
    assert own_log.set_level("engine=debug,warn") == []
    assert at("engine.roster") == logging.DEBUG
    assert at("engine.alerts.alerts") == logging.DEBUG
    assert at("adapters.store.state_store") == logging.WARNING


def test_a_group_of_modules_has_a_level(path: Path) -> None:
    """`health=trace` means the modules with that word, in whatever package."""
    importlib.import_module("holdfast.engine.health.monitor")
    own_log.set_level("health=trace")
    assert at("engine.health.health") == own_log.TRACE
    assert at("engine.roster") == logging.INFO


def test_a_later_setting_replaces_all_of_an_earlier(path: Path) -> None:
    """What was chatty before is silent again; modules that load later get their level, too."""
    own_log.set_level("engine=trace")
    own_log.set_level("adapters=error")
    assert at("engine.roster") == logging.INFO
    own_log.set_level("loaded=debug")
    assert own_log.logger("loaded_later").getEffectiveLevel() == logging.DEBUG
    assert own_log.set_level("engine=loud,info") == ["engine=loud"]


def test_every_logger_is_named_by_its_place() -> None:
    """So that levels of packages reach every module that logs."""
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if module.name.split(".")[1] in ("adapters", "app", "engine", "doors"):
            loaded = importlib.import_module(module.name)
            log = getattr(loaded, "_log", None)
            if isinstance(log, logging.Logger):
                package = module.name.rpartition(".")[0]
                assert log.name.rpartition(".")[0] == package, module.name


def test_fields_for_people(path: Path) -> None:
    """Facts are key=value behind the message."""
    own_log.logger("x").info("told", extra=facts(service="web", pid=7, uptime=1.5, reason="a b"))
    assert path.read_text().rstrip().endswith(': told service=web pid=7 uptime=1.5 reason="a b"')


def test_fields_for_programs(path: Path) -> None:
    """Facts are fields of their own in JSON, also those that logging would refuse; and an
    error has its words and its traceback."""
    own_log.set_style("json")
    log = own_log.logger("x")
    log.info("told", extra=facts(service="web", pid=7, uptime=1.5, name="n", level="fake"))
    log.info("plain", extra={"service": "db", "pid": 8})
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("broke")
    told, plain, broke = (json.loads(line) for line in path.read_text().splitlines())
    assert (told["service"], told["pid"], told["uptime"], told["name"]) == ("web", 7, 1.5, "n")
    assert told["level"] == "info"
    assert (plain["service"], plain["pid"]) == ("db", 8)
    assert broke["error"] == "no"
    assert "ValueError" in broke["traceback"]


@pytest.mark.parametrize("style", ["human", "json"])
def test_no_secret(path: Path, style: str) -> None:
    """What has the shape of a secret is hidden in message, facts and errors."""
    own_log.set_style(style)
    log = own_log.logger("x")
    secret = "abcdefgh1234"
    try:
        raise ValueError(f"bad token={secret}")
    except ValueError:
        log.exception("Bearer %s", secret, extra=facts(url=f"https://u:{secret}@h/", token=secret))
    assert secret not in path.read_text()
    assert "[hidden]" in path.read_text()


def test_it_rotates_and_loses_no_line(path: Path) -> None:
    """Files stay small, and what was written is in them once, in its order."""
    own_log.open_log(str(path), size_bytes=1200)
    log = own_log.logger("x")
    for number in range(100):
        log.info("line %d", number)
    files = [Path(name) for name in reversed(generations(str(path))) if Path(name).exists()]
    assert len(files) == 4
    assert all(1200 < file.stat().st_size < 1300 for file in files[:-1])
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert [line.rpartition(" ")[2] for line in lines] == [str(number) for number in range(100)]


def test_old_files_are_removed(path: Path) -> None:
    """There are never more than the one and three before it."""
    own_log.open_log(str(path), size_bytes=100)
    for number in range(50):
        own_log.logger("x").info("line %d", number)
    found = sorted(str(it) for it in path.parent.iterdir())
    assert set(found) <= set(generations(str(path)))
    assert "line 49" in "".join(Path(name).read_text() for name in found)


def test_who_listens_is_told_once_a_turn(path: Path) -> None:
    """However much was written, and by whatever thread; until it is silenced."""
    told: list[str] = []

    def write() -> None:
        for number in range(100):
            own_log.logger("x").info("line %d", number)

    async def turn() -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    async def story() -> None:
        silence = own_log.listen(asyncio.get_running_loop(), lambda: told.append("grew"))
        write()
        assert told == []
        await turn()
        assert told == ["grew"]
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        await turn()
        assert told == ["grew", "grew"]
        silence()
        write()
        await turn()
        assert told == ["grew", "grew"]

    asyncio.run(story())


def test_to_be_told_may_be_logged(path: Path) -> None:
    """What the listener itself writes does not wake it again, and the next line does."""
    told: list[str] = []

    def grew() -> None:
        told.append("grew")
        own_log.logger("x").info("told")

    async def story() -> None:
        own_log.listen(asyncio.get_running_loop(), grew)
        for number in (1, 2):
            own_log.logger("x").info("line")
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(told) == number

    asyncio.run(story())
    own_log.logger("x").info("after the loop")
    assert path.read_text().endswith("after the loop\n")
