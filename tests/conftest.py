"""What every test gets: folders of its own for state and sockets, and a check that it leaves no
process behind.

Each process that a test starts carries a marker in its environment. What is alive with that marker
when the run ends fails the run, and is ended by its id.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.harness import Hold

RUN = "HOLDFAST_TEST_RUN"
WORKER = "HOLDFAST_TEST_WORKER"
NAME = "HOLDFAST_TEST_NAME"
SETTLE_SECONDS = 3.0
LEAKS = pytest.StashKey[list[str]]()
FOREIGN = (
    "HOLDFAST_RUN_ID",
    "HOLDFAST_SERVICE",
    "HOLDFAST_STATE_DIR",
    "SUPERVISOR_",
    "MAGICTUNNEL_",
)

ONCE = frozenset({
    "test_alerts", "test_alerts_killed", "test_authority", "test_custom_restart",
    "test_dependencies", "test_explain", "test_hostile_texts", "test_keys", "test_pains_alerts",
    "test_pains_clock", "test_pains_dependencies", "test_pains_reload", "test_pains_restarts",
    "test_reload", "test_reload_property", "test_schedule", "test_secrets", "test_waiting",
    "test_ways_around", "test_workflows",
})  # fmt: skip
"""Stories about words and decisions: who we are makes no difference to them."""

# The same examples in every run, and none judged by the speed of the machine: a run fails for what
# was changed. `--hypothesis-profile=search` looks for others, and more of them.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", settings.get_profile("same"), derandomize=False, max_examples=1000, print_blob=True
)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    # Whoever runs us in the background ignores these, and everything we start would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.setdefault(RUN, uuid.uuid4().hex)
    if hasattr(config, "workerinput") or not _distributes(config):
        os.environ[WORKER] = getattr(config, "workerinput", {}).get("workerid", "main")
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    leaks = config.stash[LEAKS] = []
    if "HOLDFAST_TEST_OUTCOMES" in os.environ:
        from tests import outcomes

        outcomes.record(config, lambda: leaks)


def _distributes(config: pytest.Config) -> bool:
    return bool(config.getoption("numprocesses", None))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stories and kill −9 hold for every user, so they are run as nobody too."""
    for item in items:
        is_story = item.path.parent.name in ("scenarios", "chaos")
        if is_story and item.path.stem not in ONCE and not item.path.stem.endswith("_example"):
            item.add_marker(pytest.mark.unprivileged)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    os.environ[NAME] = item.nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """What a failed test left open is freed at once, or the next one would be blamed for it."""
    failed = item.session.testsfailed
    try:
        return (yield)
    finally:
        if item.session.testsfailed > failed:
            for name in ("last_exc", "last_value", "last_traceback"):
                sys.__dict__.pop(name, None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gc.collect()


def _leftovers(run: str, worker: str) -> list[tuple[psutil.Process, str]]:
    """Live processes of this run and worker, each with a line about it."""
    found = []
    for process in psutil.process_iter():
        try:
            environ = process.environ()
            if environ.get(RUN) != run or environ.get(WORKER) != worker:
                continue
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = " ".join(process.cmdline())[:120]
            found.append((process, f"{process.pid} {words} (from {environ.get(NAME, '?')})"))
        except psutil.Error:
            continue
    return found


def _end_leftovers(run: str, worker: str) -> list[str]:
    """Gives what is ending a moment, then ends the rest; returns a line about each."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while _leftovers(run, worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    lines: dict[int, str] = {}
    for _ in range(20):
        found = _leftovers(run, worker)
        if not found:
            break
        for process, line in found:
            lines[process.pid] = line
            try:
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs([process for process, _ in found], timeout=0.5)
    return list(lines.values())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    worker = os.environ.get(WORKER)
    if worker is not None:
        config.stash[LEAKS] += _end_leftovers(os.environ[RUN], worker)
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output["leaks"] = config.stash[LEAKS]
    elif config.stash[LEAKS]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    if error is None:
        node.config.stash[LEAKS] += getattr(node, "workeroutput", {}).get("leaks", [])
    else:
        node.config.stash[LEAKS] += _end_leftovers(os.environ[RUN], node.gateway.id)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[LEAKS]:
        terminalreporter.section("processes left behind (ended now)", red=True)
        for line in config.stash[LEAKS]:
            terminalreporter.write_line(line)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A temporary folder whose path is short enough to hold sockets."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp")).resolve()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def only_unmarked() -> Iterator[None]:
    """For a test without marks, in which a process of another such test might be the run in doubt:
    one at a time."""
    path = Path(tempfile.gettempdir()) / f"holdfast-unmarked-{os.getuid()}.lock"
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """State and sockets of this test alone, so that none touches the user's own."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp")).resolve()
    for name, variable in (("state", "XDG_STATE_HOME"), ("run", "XDG_RUNTIME_DIR")):
        (folder / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder / name))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_log_path(tmp_path: Path) -> Iterator[Path]:
    """Where a test may open Holdfast's own log, which is closed after it."""
    from holdfast.adapters import own_log

    yield tmp_path / "own.log"
    own_log.set_level("info")
    root = logging.getLogger(own_log.ROOT)
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.propagate = True


@pytest.fixture
def hold() -> Iterator[Hold]:
    """A Holdfast of its own; whatever it started is gone afterwards."""
    from tests.harness import Hold

    with Hold() as one:
        yield one
