"""No git command changes or tells a denied file: every command, every kind of denied file, every
way of reaching one. Real repositories, real git."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.system import landlock
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import HoldfastError, Refused
from holdfast.vocabulary.specs.files import FilesSpec, RootSpec
from tests.git.desk import Desk

DENIED = ("holdfast.yaml", ".env", "dumps/data.sql", "conf/KEYS/Server.PEM")
"""The configuration, a secret by its name, a path of the user's list, and one in other letters."""
SECRET = "hunter2"
Fields = dict[str, Any]
CHANGES = {name for name, command in COMMANDS.items() if command.effect is not Effect.READS}

FIELDS: dict[str, list[Fields]] = {
    "git_status": [{}],
    "git_diff": [
        *({}, {"staged": True}, {"rev": "HEAD"}, {"rev": "main..other"}, {"rev": "main...other"}),
        *({"paths": ["."]}, {"rev": "other", "paths": ["dumps", "conf", "."]}),
        {"paths": ["DENIED"]},
    ],
    "git_log": [{}, {"rev": "other"}, {"paths": ["DENIED"]}],
    "git_show": [
        *({}, {"rev": "other"}, {"rev": "stash@{0}"}, {"rev": "kept"}, {"rev": "merged"}),
        *({"rev": "HEAD:.env"}, {"rev": "other", "paths": ["DENIED"]}),
    ],
    "git_blame": [{"path": "DENIED"}, {"path": "DENIED", "rev": "other"}, {"path": "pub/data.sql"}],
    "git_branches": [{}],
    "git_add": [{"paths": ["."]}, {"paths": ["dumps", "conf"]}, {"paths": ["DENIED"]}],
    "git_commit": [
        *({"message": "m"}, {"message": "m", "paths": ["."]}),
        *({"message": "m", "paths": ["dumps", "conf"]}, {"message": "m", "paths": ["DENIED"]}),
    ],
    "git_restore": [
        *({"paths": ["."]}, {"paths": ["."], "staged": True}, {"paths": ["DENIED"]}),
        *({"paths": ["."], "rev": "other"}, {"paths": ["."], "rev": "other", "staged": True}),
        *({"paths": ["dumps", "conf"], "rev": "other"}, {"paths": ["DENIED"], "rev": "other"}),
    ],
    "git_switch": [
        *({"branch": "other"}, {"rev": "other"}, {"rev": "kept"}),
        *({"branch": "new", "create": True, "rev": "other"}, {"rev": "stash@{0}"}),
    ],
    "git_stash": [
        *({"action": "push"}, {"action": "push", "paths": ["dumps", "conf", "."]}),
        *({"action": "pop"}, {"action": "apply"}, {"action": "list"}, {"action": "drop"}),
    ],
    "git_abort": [{}],
    "git_tag": [{"tag": "v1", "rev": "other"}],
    "checkpoint": [{}],
    "checkpoints": [{}],
    "restore_checkpoint": [{}, {"checkpoint": "20200101-000000-000aaaaa"}],
}
"""What each command is asked; DENIED is each denied file in turn."""


class World:
    """A repository whose branch `other`, newest stash and oldest checkpoint hold other contents
    of the denied files than the work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = Desk(folder, deny=("dumps/**",))
        self.desk.repository(**{"a.txt": "one\n", "pub/data.sql": "open\n"})
        self._fill("main")
        self.commit("denied files")
        self.desk.run_git("checkout", "-q", "-b", "other")
        self._fill("other")
        self.desk.write("a.txt", "other\n")
        self.commit("others")
        self.desk.run_git("checkout", "-q", "main")
        self._fill("kept")
        self.desk.write("a.txt", "kept\n")
        self.commit("kept")
        self.desk.run_git("tag", "kept")
        ref = "refs/holdfast/checkpoints/20200101-000000-000aaaaa"
        self.desk.run_git("update-ref", ref, "kept")
        self.desk.run_git("reset", "-q", "--hard", "HEAD~1")
        self._fill("stash")
        self.desk.run_git("stash", "push", "-q", "--include-untracked")
        self.desk.run_git("merge", "-q", "--no-ff", "-m", "merged", "-s", "ours", "other")
        self.desk.run_git("tag", "merged")
        self.desk.run_git("reset", "-q", "--hard", "HEAD~1")

    def _fill(self, what: str) -> None:
        for path in DENIED:
            self.desk.write(path, f"{SECRET} {what} {path}\n" * 4)

    def commit(self, message: str) -> None:
        self.desk.run_git("add", "-Af")
        self.desk.run_git("commit", "-qm", message)

    def facts(self) -> dict[str, Any]:
        """What each denied file is in the work tree and in the index."""
        staged = dict.fromkeys(DENIED, "")
        for entry in self.desk.run_git("ls-files", "--stage", "-z").split("\0"):
            head, _, path = entry.partition("\t")
            if path in staged:
                staged[path] += head
        return {path: (_content(self.desk.project / path), staged[path]) for path in DENIED}


def _content(path: Path) -> bytes | str | None:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return path.read_bytes() if path.is_file() else None


def nothing(world: World) -> None:
    """As it is."""


def changed(world: World) -> None:
    for path in DENIED:
        world.desk.write(path, f"{SECRET} changed\n")


def staged(world: World) -> None:
    changed(world)
    world.desk.run_git("add", "-Af")


def hidden_from_git(world: World) -> None:
    """Git was told not to look at them: it finds no difference, and overwrites them."""
    changed(world)
    world.desk.run_git("update-index", "--assume-unchanged", "--", *DENIED)


def untracked(world: World) -> None:
    """They were never added here; elsewhere they are."""
    world.desk.run_git("rm", "-q", "--cached", "--", *DENIED)
    world.desk.run_git("commit", "-qm", "removed")


def missing(world: World) -> None:
    for path in DENIED:
        (world.desk.project / path).unlink()


def renamed(world: World) -> None:
    """Other files take their names, and they take other names."""
    world.desk.run_git("checkout", "-q", "-B", "other")
    for number, path in enumerate(DENIED):
        world.desk.run_git("mv", path, f"plain{number}.txt")
    world.desk.run_git("mv", "a.txt", "dumps/a.sql")
    world.commit("renamed")
    world.desk.run_git("checkout", "-q", "main")


def replaced_folder(world: World) -> None:
    """A folder that holds denied files is a file elsewhere; here they are in no index."""
    untracked(world)
    world.desk.run_git("checkout", "-q", "-f", "other")
    world.desk.run_git("rm", "-rq", "dumps", "conf")
    world.desk.write("dumps", "a file\n")
    world.desk.write("conf", "a file\n")
    world.commit("files")
    world.desk.run_git("checkout", "-q", "-f", "main")
    for path in DENIED:
        world.desk.write(path, f"{SECRET} main\n")


def linked(world: World) -> None:
    """Elsewhere a plain name is a link to a denied file, or to a folder of them."""
    world.desk.run_git("checkout", "-q", "other")
    world.desk.run_git("rm", "-rq", "pub")
    (world.desk.project / "pub").symlink_to("dumps")
    (world.desk.project / "plain").symlink_to(".env")
    world.commit("links")
    world.desk.run_git("checkout", "-q", "main")
    try:
        world.desk.ask("git_restore", paths=["pub"], rev="other")
    except HoldfastError:
        pass


def conflicting(world: World) -> None:
    """A merge under way did not settle them."""
    changed(world)
    world.commit("ours")
    with pytest.raises(Exception, match="non-zero"):
        world.desk.run_git("merge", "other")


def no_commit(world: World) -> None:
    """On a branch without a commit, everything that is elsewhere is new."""
    world.desk.run_git("checkout", "-q", "--orphan", "empty")
    world.desk.run_git("rm", "-rfq", ".")
    world.desk.write("holdfast.yaml", f"{SECRET} own\n")
    world.desk.run_git("config", "core.excludesFile", "/dev/null")


WAYS: list[Callable[[World], None]] = [
    *(nothing, changed, staged, hidden_from_git, untracked, missing, renamed),
    *(replaced_folder, linked, conflicting, no_commit),
]


def test_every_git_command_is_tried() -> None:
    """A git command without a row here fails this test."""
    known = {
        name for name, command in COMMANDS.items() if "repository" in command.__struct_fields__
    }
    assert known == set(FIELDS)


@pytest.fixture(autouse=True)
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is refused by us, not by the kernel; and without it git starts faster."""
    monkeypatch.setattr(landlock, "version", lambda: 0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_command_changes_or_tells_a_denied_file(
    world: World, way: Callable[[World], None], tmp_path: Path
) -> None:
    """Not in the work tree, not in the index, not in a commit, not in an answer or an error."""
    for part in ("project", "home"):
        shutil.copytree(world.folder / part, tmp_path / part, symlinks=True)
    desk = Desk(tmp_path, deny=("dumps/**",))
    here = World.__new__(World)
    here.folder, here.desk = tmp_path, desk
    way(here)
    original = tmp_path / "original"
    os.rename(tmp_path / "project", original)
    is_fresh = False
    for name, asked in FIELDS.items():
        for fields in _each(asked):
            if not is_fresh:
                shutil.rmtree(tmp_path / "project", ignore_errors=True)
                shutil.copytree(original, tmp_path / "project", symlinks=True)
                desk.run_git("update-index", "-q", "--refresh", "--unmerged", may_fail=True)
                before = here.facts()
                head = desk.run_git("log", "-1", "--format=%H", may_fail=True)
            try:
                answer = desk.ask(name, **fields)
                text, is_fresh = msgspec.json.encode(answer).decode(), name not in CHANGES
            except HoldfastError as error:
                text, is_fresh = f"{error.message} {error.hint} {error.details}", True
            where = f"{name} {fields}"
            assert SECRET not in text, where
            assert here.facts() == before, f"{where}: {text}"
            assert not _new_commits(desk, name, head), f"{where}: {text}"


def _each(asked: list[Fields]) -> list[Fields]:
    found = []
    for fields in asked:
        if "DENIED" in str(fields):
            found += [_with(fields, path) for path in DENIED]
        else:
            found.append(fields)
    return found


def _with(fields: Fields, path: str) -> Fields:
    return {
        key: path if value == "DENIED" else [path] if value == ["DENIED"] else value
        for key, value in fields.items()
    }


def _new_commits(desk: Desk, name: str, head: str) -> set[str]:
    """Denied files that a commit of ours has changed."""
    if name != "git_commit":
        return set()
    base = [f"^{head.strip()}"] if head else []
    words = ("log", "-m", "--name-only", "--no-renames", "--format=", "-z", "HEAD", *base)
    listed = desk.run_git(*words, may_fail=True).replace("\n", "").split("\0")
    return {path for path in listed if path in DENIED}


def test_a_switch_names_the_denied_file_and_says_why(tmp_path: Path) -> None:
    """With the code and the words of write_file; and the switch is not made."""
    desk = World(tmp_path).desk
    for fields in ({"branch": "other"}, {"branch": "other", "dry_run": True}):
        with pytest.raises(Refused, match=r'"\.env" is denied: it may hold secrets') as caught:
            desk.ask("git_switch", **fields)
        assert caught.value.details["paths"] == sorted(DENIED)
        assert "git_switch would change" in caught.value.hint
    assert desk.run_git("branch", "--show-current").strip() == "main"


def test_a_root_within_that_may_only_be_read_is_not_changed(tmp_path: Path) -> None:
    """Through the repository of the outer one neither."""
    from holdfast.adapters.files.roots import Roots

    desk = Desk(tmp_path)
    desk.repository(**{"a.txt": "one\n", "docs/b.txt": "one\n"})
    desk.run_git("checkout", "-q", "-b", "other")
    desk.write("docs/b.txt", "two\n")
    desk.run_git("commit", "-qam", "two")
    desk.run_git("checkout", "-q", "main")
    project = str(desk.project)
    outer = RootSpec(name="project", path=project, write=True)
    spec = FilesSpec(roots=(outer, RootSpec(name="docs", path=f"{project}/docs")))
    desk.files.roots = Roots(spec, project, list)
    with pytest.raises(Refused, match='root "docs" is read-only'):
        desk.ask("git_switch", branch="other")
    assert not desk.ask("git_restore", paths=["."], rev="other").changed
    assert desk.read("docs/b.txt") == "one\n"


@pytest.mark.parametrize("to", ["/etc", "../../outside", ".env", "dumps", "d/../../x"])
def test_no_link_to_what_is_not_offered_is_made(tmp_path: Path, to: str) -> None:
    """Write_file makes no links; a checkout makes none that lead out, or to what is denied."""
    desk = Desk(tmp_path, deny=("dumps/**", "dumps"))
    desk.repository()
    desk.run_git("checkout", "-q", "-b", "other")
    (desk.project / "link").symlink_to(to)
    (desk.project / "fine").symlink_to("a.txt")
    desk.run_git("add", "-A")
    desk.run_git("commit", "-qm", "a link")
    desk.run_git("checkout", "-q", "main")
    with pytest.raises(Refused, match='"link" would be a link to'):
        desk.ask("git_switch", branch="other")
    with pytest.raises(Refused, match='"link" would be a link to'):
        desk.ask("git_restore", paths=["."], rev="other")
    assert desk.ask("git_restore", paths=["fine"], rev="other").changed
    assert not (desk.project / "link").is_symlink()
