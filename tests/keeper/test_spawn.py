"""Starting programs: what they inherit, and which stage a failure names."""

from __future__ import annotations

import errno
import os
import pwd
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.system import landlock
from tests.keeper.conftest import KeeperProcess, Message

pytestmark = pytest.mark.unprivileged

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root may change the user")


def _failure(keeper: KeeperProcess, *argv: str, **fields: object) -> Message:
    answer = keeper.link.ask("spawn", **keeper.request(*argv, **fields))
    assert not answer["ok"], answer
    error: Message = answer["error"]
    assert error["code"] == "spawn_failed", error
    return error


# posix_spawn and fork must not differ in what they say.
WAYS = [{}, {"umask": "022"}]


@pytest.mark.parametrize("way", WAYS)
def test_bad_directory(keeper: KeeperProcess, way: Message) -> None:
    """A missing directory is said to be that."""
    error = _failure(keeper, "true", cwd="/no/such/place", **way)
    assert (error["stage"], error["errno"]) == ("directory", errno.ENOENT)
    assert error["message"] == "entering directory /no/such/place: No such file or directory"


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_that_leads_elsewhere(keeper: KeeperProcess, tmp_path: Path, way: Message) -> None:
    """A program that must run below a folder is not started where a link leads out of it."""
    project, outside = tmp_path / "project", tmp_path / "project-outside"
    project.mkdir()
    outside.mkdir()
    (project / "link").symlink_to(outside)
    for folder in (project / "link", outside, project / ".."):
        error = _failure(keeper, "true", cwd=str(folder), beneath=str(project), **way)
        assert (error["stage"], error["errno"]) == ("directory", errno.EXDEV)
        assert f"not below {project}" in error["message"]
    request = keeper.request("true", cwd=str(project), beneath=str(project), **way)
    assert keeper.link.ask("spawn", **request)["ok"]


def test_a_failure_is_told_whatever_number_readiness_has(keeper: KeeperProcess) -> None:
    """The descriptor to say «ready» on may have any number, also that of a pipe of the keeper's."""
    reader, writer = os.pipe()
    try:
        keeper.link.do("hold", name="ready", fds=(writer,))
        for number in range(3, 60):
            told = {"name": "ready", "fd": number}
            error = _failure(keeper, "true", cwd="/no/such/place", ready_fd=told)
            assert error["stage"] == "directory", number
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 100)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("way", WAYS)
def test_no_such_program(keeper: KeeperProcess, way: Message) -> None:
    """A program that is not in the service's PATH is an exec failure."""
    error = _failure(keeper, "no-such-program", **way)
    assert (error["stage"], error["errno"]) == ("exec", errno.ENOENT)
    assert "no-such-program" in error["message"]


@pytest.mark.parametrize("way", WAYS)
def test_not_executable(keeper: KeeperProcess, folder: Path, way: Message) -> None:
    """A file without the right to execute is told apart from a missing one."""
    (folder / "plain").write_text("text")
    error = _failure(keeper, str(folder / "plain"), **way)
    assert (error["stage"], error["errno"]) == ("exec", errno.EACCES)


def test_missing_interpreter(keeper: KeeperProcess, folder: Path) -> None:
    """A script whose interpreter is missing is not called missing itself."""
    script = folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert "interpreter" in _failure(keeper, str(script))["message"]


def test_unknown_user(keeper: KeeperProcess) -> None:
    """A user that does not exist fails at the stage user."""
    for name in ("no-such-user", "²", "0:²", "9" * 30):
        error = _failure(keeper, "true", user=name)
        assert error["stage"] == "user"
        assert name in error["message"]


@pytest.mark.parametrize("limits", [{"nofile": [100, 50]}, {"nonsense": [1, 1]}, {"core": "x"}])
def test_bad_limits(keeper: KeeperProcess, limits: Message) -> None:
    """A limit that cannot be set fails at the stage limits."""
    assert _failure(keeper, "true", rlimits=limits)["stage"] == "limits"


def test_bad_environment(keeper: KeeperProcess) -> None:
    """A variable that cannot exist fails at the stage environment."""
    assert _failure(keeper, "true", env={"A=B": "c"})["stage"] == "environment"


def test_failure_leaks_nothing(keeper: KeeperProcess) -> None:
    """Failed starts leave neither descriptors nor processes behind."""

    def count() -> int:
        return len(os.listdir(f"/proc/{keeper.pid}/fd"))

    _failure(keeper, "no-such-program", stdin="pipe")
    before = count()
    for way in WAYS * 5:
        _failure(keeper, "no-such-program", stdin="pipe", **way)
        _failure(keeper, "no-such-program", kind="terminal", **way)
    assert count() == before
    assert keeper.link.do("list")["runs"] == []


def _says(keeper: KeeperProcess, script: str, **fields: object) -> str:
    keeper.spawn("sh", "-c", script, **fields)
    keeper.exit_of(keeper.last)
    return keeper.output(keeper.last).decode().strip()


@pytest.mark.parametrize("way", WAYS)
def test_environment(keeper: KeeperProcess, way: Message) -> None:
    """A run gets exactly the environment that was sent, and its run id."""
    env = {"PATH": os.environ["PATH"], "ODD": "caf\udce9"}
    keeper.spawn("env", env=env, service="web", **way)
    keeper.exit_of(keeper.last)
    lines = keeper.output("web").splitlines()
    assert b"ODD=caf\xe9" in lines
    assert f"HOLDFAST_RUN_ID={keeper.last}".encode() in lines
    assert b"HOLDFAST_SERVICE=web" in lines
    assert {line.partition(b"=")[0] for line in lines} == {
        b"PATH",
        b"ODD",
        b"HOLDFAST_RUN_ID",
        b"HOLDFAST_SERVICE",
        b"HOLDFAST_STATE",
    }


@pytest.mark.parametrize("way", WAYS)
def test_path_of_the_service(keeper: KeeperProcess, folder: Path, way: Message) -> None:
    """The program is looked up in the PATH of the service, not in the keeper's."""
    program = folder / "mine"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    keeper.spawn("mine", env={"PATH": str(folder)}, **way)
    keeper.exit_of(keeper.last)
    assert keeper.output(keeper.last) == b"found\n"


@pytest.mark.parametrize("way", WAYS)
def test_session_signals_and_limits(keeper: KeeperProcess, way: Message) -> None:
    """A run leads a session, ignores and blocks no signal, and has the original limits."""
    code = (
        "import os, signal, resource;"
        "print(os.getsid(0) == os.getpid() == os.getpgid(0),"
        " [s.name for s in signal.valid_signals() if isinstance(s, signal.Signals)"
        " and signal.getsignal(s) == signal.SIG_IGN],"
        " len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),"
        " resource.getrlimit(resource.RLIMIT_NOFILE),"
        " sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    )
    keeper.spawn(sys.executable, "-I", "-c", code, **way)
    keeper.exit_of(keeper.last)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Python itself ignores SIGPIPE and SIGXFSZ.
    said = keeper.output(keeper.last).decode().strip()
    assert said == f"True ['SIGPIPE', 'SIGXFSZ'] 0 {limits} [0, 1, 2]"


def test_sigpipe_is_default(keeper: KeeperProcess) -> None:
    """What the keeper ignores is not ignored by its children."""
    text = _says(keeper, "grep SigIgn /proc/self/status")
    # 32 and 33 are the C library's own.
    assert int(text.split()[1], 16) & ~(3 << 31) == 0


def test_oom_score_is_restored(keeper: KeeperProcess) -> None:
    """The keeper's protection from the OOM killer is not inherited."""
    own = Path("/proc/self/oom_score_adj").read_text().strip()
    assert _says(keeper, "cat /proc/self/oom_score_adj") == own


def test_umask_nice_and_limits(keeper: KeeperProcess) -> None:
    """Umask, niceness and limits are what was asked for."""
    text = _says(
        keeper,
        "umask; nice; ulimit -n; ulimit -H -n",
        umask="027",
        nice=5,
        rlimits={"nofile": [64, 128]},
    )
    assert text.split() == ["0027", "5", "64", "128"]


@needs_root
def test_an_unknown_user_with_its_group(keeper: KeeperProcess) -> None:
    """A number that the machine does not know is a user, with the group that is given alone."""
    told = _says(keeper, "id -u; id -g; id -G", user="54321:54322")
    assert told.split() == ["54321", "54322", "54322"]
    assert _failure(keeper, "true", user="54321")["stage"] == "user"


@needs_root
def test_user(make_keeper: Callable[[], KeeperProcess]) -> None:
    """User, group and supplementary groups are those of the user, none is the keeper's."""
    before = os.getgroups()
    os.setgroups([0, 4242])
    try:
        keeper = make_keeper()
    finally:
        os.setgroups(before)
    name, *groups = _says(keeper, "id -un; id -G", user="nobody").split()
    nobody = pwd.getpwnam("nobody")
    assert name == "nobody"
    assert int(groups[0]) == nobody.pw_gid
    assert {int(group) for group in groups} == {*os.getgrouplist("nobody", nobody.pw_gid)}


@pytest.mark.skipif(IS_ROOT, reason="root may change the user")
def test_user_without_the_right(keeper: KeeperProcess) -> None:
    """Who may not become another user is told at which stage that was refused."""
    error = _failure(keeper, "true", user="root")
    assert (error["stage"], error["errno"]) == ("user", errno.EPERM)
    assert error["message"].startswith("changing to user root: ")


@needs_root
def test_directory_is_entered_as_the_user(keeper: KeeperProcess, folder: Path) -> None:
    """A folder that only root may enter is refused to a service of another user."""
    error = _failure(keeper, "true", user="nobody", cwd=str(folder / "state"))
    assert (error["stage"], error["errno"]) == ("directory", errno.EACCES)


def test_task_gets_its_pipes_handed_over(keeper: KeeperProcess) -> None:
    """A task's output is not recorded; its pipes belong to the one who asked."""
    answer = keeper.spawn("sh", "-c", "cat; echo oops >&2", kind="task", stdin="pipe")
    spare = answer["spare"]
    os.write(spare["stdin"], b"through\n")
    os.close(spare["stdin"])
    keeper.link._fds.remove(spare["stdin"])
    assert os.read(spare["out"], 100) == b"through\n"
    assert os.read(spare["err"], 100) == b"oops\n"
    assert os.read(spare["out"], 100) == b""
    assert keeper.exit_of(keeper.last)["code"] == 0
    assert list(keeper.logs.iterdir()) == []


def test_socket_activation(keeper: KeeperProcess) -> None:
    """Held sockets are passed by the convention of LISTEN_FDS."""
    listener = socket.create_server(("127.0.0.1", 0))
    keeper.link.do("hold", name="http", fds=(listener.fileno(),))
    code = (
        "import os, socket; s = socket.socket(fileno=3);"
        "print(os.environ['LISTEN_FDS'], os.environ['LISTEN_FDNAMES'],"
        " os.environ['LISTEN_PID'] == str(os.getpid()), s.getsockname()[1])"
    )
    keeper.spawn(sys.executable, "-I", "-c", code, pass_fds=["http"])
    keeper.exit_of(keeper.last)
    port = listener.getsockname()[1]
    listener.close()
    assert keeper.output(keeper.last).decode().strip() == f"1 http True {port}"


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """The soft limit that macOS has; a keeper raises its own, but not that of services."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_descriptors")
def test_many_descriptors(make_keeper: Callable[..., KeeperProcess]) -> None:
    """More descriptors in the keeper than a service may have hinder no start of any kind."""
    keeper = make_keeper()
    reader, writer = os.pipe()
    for number in range(300):
        keeper.link.send("hold", name=f"fd-{number}", fds=(reader,))
    keeper.link.do("list")
    os.close(reader)
    os.close(writer)
    user = {"user": "nobody"} if IS_ROOT else {}
    for fields in ({}, {"umask": "022"}, {"umask": "022", **user}, {"kind": "terminal"}):
        assert _says(keeper, "ulimit -n", **fields).split()[-1] == "256"


def test_hold_over_253(make_keeper: Callable[..., KeeperProcess]) -> None:
    """Every held descriptor reaches the next supervisor, however many there are."""
    keeper = make_keeper("--no-supervisor")
    reader, writer = os.pipe()
    for number in range(300):
        keeper.link.send("hold", name=f"fd-{number}", fds=(reader,))
    os.close(reader)
    os.close(writer)
    keeper.link.do("hello", protocol=1, role="supervisor")
    keeper.link.notice("spares_done")
    assert len(keeper.link.held) == 1 + 300


@pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")
def test_a_confined_run_reaches_its_folders_and_no_others(
    keeper: KeeperProcess, folder: Path
) -> None:
    """Nor does what it starts, nor through a link; a folder that is open for it is named to it."""
    mine, other = folder / "mine", folder / "other"
    for one in (mine, other):
        one.mkdir()
        (one / "file").write_text(f"of {one.name}\n")
    (mine / "link").symlink_to(other)
    system = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
    confine = {
        "read": [path for path in system if os.path.exists(path)],
        "write": [str(mine), "/dev/null"],
        "open": {"FOLDER": str(mine)},
    }
    script = (
        "cat file $FOLDER/file ../other/file link/file; sh -c 'cat ../other/file'; "
        "echo x > ../other/new; echo x > link/new; echo written > new; cat new"
    )
    said = _says(keeper, script, cwd=str(mine), confine=confine)
    assert said.split("\n") == ["of mine", "of mine", "written"]
    assert not (other / "new").exists()


@pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")
def test_what_cannot_be_confined_is_not_run(keeper: KeeperProcess) -> None:
    """The failure says at which stage."""
    confine = {"read": ["/"], "write": [], "open": {"FOLDER": "/no/such/place"}}
    error = _failure(keeper, "true", confine=confine)
    assert (error["stage"], error["errno"]) == ("confinement", errno.ENOENT)
