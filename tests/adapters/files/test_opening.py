"""Nothing outside a root is opened, whatever paths, links, mounts and racing processes do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.files.beneath import FILE, FOLDER, by_steps
from holdfast.vocabulary.errors import HoldfastError, NotFound, Refused, UsageError
from holdfast.vocabulary.specs.files import FilesSpec, RootSpec
from tests.adapters.files.stage import OPENERS, Stage

SECRET = "outside-4711"


@pytest.fixture(params=sorted(OPENERS))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Each way of opening, over the same tree."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    made = Stage(tmp_path, OPENERS[request.param])
    made.put("a.txt", "inside\n")
    made.put("sub/b.txt", "below\n")
    yield made
    made.files.close()


def links(stage: Stage) -> list[str]:
    """Paths that lead through a link, each another way."""
    outside = stage.tree.parent / "outside"
    (stage.tree / "file-link").symlink_to(outside / "secret.txt")
    (stage.tree / "folder-link").symlink_to(outside)
    (stage.tree / "up-link").symlink_to("..")
    (stage.tree / "inner-link").symlink_to("a.txt")
    (stage.tree / "inner-folder").symlink_to("sub")
    (stage.tree / "loop").symlink_to("loop")
    (stage.tree / "magic").symlink_to("/proc/self/root")
    (stage.tree / "magic-cwd").symlink_to("/proc/self/cwd")
    return [
        *("file-link", "folder-link/secret.txt", "up-link/outside/secret.txt", "inner-link"),
        *("inner-folder/b.txt", "loop", "loop/x", "magic/etc/passwd", "magic-cwd/x"),
    ]


def test_no_link_is_followed(stage: Stage) -> None:
    """Not even one that stays inside: what is denied by name could hide behind it."""
    for path in links(stage):
        with pytest.raises(Refused, match="link"):
            stage.read(path)
        with pytest.raises(Refused, match="link"):
            stage.write(path, "x", etag="*")
    with pytest.raises(Refused):
        stage.look("folder-link")
    assert (stage.tree.parent / "outside" / "secret.txt").read_text() == SECRET
    assert (stage.tree / "inner-link").is_symlink()


def test_a_link_inside_says_what_to_name(stage: Stage) -> None:
    """One more request, and the file is read."""
    links(stage)
    for path, meant in (("inner-link", "a.txt"), ("inner-folder/b.txt", "sub/b.txt")):
        with pytest.raises(Refused) as caught:
            stage.read(path)
        assert caught.value.hint == f'it leads to "{meant}": name that'
    with pytest.raises(Refused) as caught:
        stage.read("file-link")
    assert caught.value.hint == "it leads out of the roots"


@pytest.mark.parametrize(
    "path",
    [
        *("../outside/secret.txt", "sub/../../outside/secret.txt", "/etc/passwd", "..", "sub/.."),
        *("uri:..%2foutside%2fsecret.txt", "tree:../outside/secret.txt", "a.txt/../../outside"),
        *("....//outside/secret.txt", "..\\outside\\secret.txt", "%2e%2e/outside/secret.txt"),
        *("/proc/self/cwd/etc/passwd", "~/x", "a.txt/", "a.txt/x", "sub", "", "\n", "x" * 300),
        *(
            "file:///etc/passwd",
            "a.txt\0.png",
            "CON",
            "sub/./../..",
            "\u2025/outside",
            "．．/outside",
        ),
    ],
)
def test_hostile_paths_read_nothing(stage: Stage, path: str) -> None:
    """Refused, or not there; never something else, and never an error inside."""
    if path == "a.txt/":
        assert stage.read(path).content == "inside\n"  # the same file; a slash is not a folder
        return
    with pytest.raises((Refused, NotFound, UsageError)):
        stage.read(path)
    with pytest.raises(HoldfastError):
        stage.edit(path, "inside", "x")


def test_mounts_are_not_entered(stage: Stage) -> None:
    """A mount below a root is another root, or nothing."""
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for names in (("proc", "version"), ("proc", "self", "status")):
            with pytest.raises(OSError, match="cross-device"):
                stage.files.roots.opener(root, names, FILE)
    finally:
        os.close(root)


def test_what_is_no_file_is_refused_at_once(stage: Stage) -> None:
    """A pipe without a writer, a socket, a device, a folder: nobody waits for them."""
    os.mkfifo(stage.tree / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(stage.tree / "sock")) if len(str(stage.tree)) < 90 else None
        began = time.monotonic()
        for path in ("pipe", "sock", "sub"):
            if not (stage.tree / path).exists():
                continue
            with pytest.raises(Refused, match="not a file"):
                stage.read(path)
            with pytest.raises(Refused, match="not a file"):
                stage.write(path, "x", etag="*")
        assert time.monotonic() - began < 20
    kinds = {entry.path: entry.kind for entry in stage.look().entries}
    assert (kinds["pipe"], kinds["sub"]) == ("other", "directory")
    stage.spec = FilesSpec(roots=(RootSpec(name="dev", path="/dev"),))
    with pytest.raises(Refused, match="device"):
        stage.read("dev:null")


def test_denied_files_cannot_be_had_by_any_command(stage: Stage) -> None:
    """Read, listed into, written, edited, patched: refused; in a listing they are marked."""
    for path in (".git/config", ".env", "holdfast.yaml", "sub/id_rsa"):
        stage.put(path, "secret\n")
        with pytest.raises(Refused, match="denied"):
            stage.read(path)
        with pytest.raises(Refused, match="denied"):
            stage.write(path, "x", etag="*")
        with pytest.raises(Refused, match="denied"):
            stage.edit(path, "secret", "x")
        with pytest.raises(HoldfastError, match="denied"):
            stage.patch(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-secret\n+x\n")
        assert (stage.tree / path).read_text() == "secret\n"
    with pytest.raises(Refused):
        stage.look(".git")
    listed = {one.path: one.denied for one in stage.look(depth=2, hidden=True).entries}
    assert listed[".env"]
    assert listed[".git"]
    assert ".git/config" not in listed
    assert not listed["a.txt"]


def test_a_read_only_root_is_not_changed(tmp_path: Path) -> None:
    """Not by any command."""
    stage = Stage(tmp_path, write=False)
    stage.put("a.txt", "x\n")
    for attempt in (
        lambda: stage.write("b.txt", "x"),
        lambda: stage.edit("a.txt", "x", "y"),
        lambda: stage.undo(path="a.txt"),
    ):
        with pytest.raises(Refused, match="read-only"):
            attempt()
    with pytest.raises(HoldfastError, match="read-only"):
        stage.patch("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n")
    assert stage.names() == {"a.txt"}
    assert not stage.state.exists()


def test_unusual_names(stage: Stage) -> None:
    """A line end, bytes that are no text, a very long one, and two forms of one letter."""
    names = [
        b"new\nline",
        b"\xff\xfe.txt",
        b"n" * 255,
        "é".encode(),
        b"e\xcc\x81",
        b"-rf",
        b" ",
        b"*",
    ]
    folder = os.fsencode(stage.tree)
    for name in names:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(name)
    listed = stage.look().entries
    assert len(listed) == len(names) + 2
    read = {
        stage.read(one.path, encoding="base64").size: one for one in listed if one.kind == "file"
    }
    assert read
    for one in listed:
        if one.kind == "file" and one.path != "a.txt":
            found = stage.read(one.path)
            assert found.bytes == found.size > 0
            assert found.path == one.path
    assert stage.read("é").content == "é"
    assert stage.read("e\u0301").content == "e\u0301"
    assert stage.write("uri:%FFnew", "made").outcome == "created"
    assert os.path.exists(os.path.join(folder, b"\xffnew"))
    stage.undo()
    assert not os.path.exists(os.path.join(folder, b"\xffnew"))
    with pytest.raises(UsageError, match="too long"):
        stage.read("n" * 256)


RACER = """
import os, sys, time

tree, outside = sys.argv[1:]
os.chdir(tree)
steps = (
    (os.rename, "dir", "real"), (os.symlink, outside, "dir"),
    (os.unlink, "dir"), (os.rename, "real", "dir"),
    (os.rename, "dir/secret.txt", "dir/kept"),
    (os.symlink, outside + "/secret.txt", "dir/secret.txt"),
    (os.unlink, "dir/secret.txt"), (os.rename, "dir/kept", "dir/secret.txt"),
)
print("go", flush=True)
end = time.monotonic() + 3
while time.monotonic() < end:
    for do, *words in steps:
        try:
            do(*words)
        except OSError:
            pass  # who is raced against was first
    time.sleep(0.0002)
"""


@pytest.mark.parametrize("way", sorted(OPENERS))
def test_a_racing_process_gains_nothing(way: str, tmp_path: Path) -> None:
    """Folders and files that turn into links at every moment: never read, never written."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    stage = Stage(tmp_path, OPENERS[way])
    stage.put("dir/secret.txt", "inside\n")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", RACER, str(stage.tree), str(outside)],
        stdout=subprocess.PIPE,
    ) as racer:
        assert racer.stdout is not None
        racer.stdout.readline()
        deadline, read, refused, written = time.monotonic() + 1.0, 0, 0, 0
        try:
            while time.monotonic() < deadline:
                try:
                    content = stage.read("dir/secret.txt").content
                    assert content in ("inside\n", "within\n")
                    read += 1
                    other = "within" if content == "inside\n" else "inside"
                    stage.edit("dir/secret.txt", content.strip(), other)
                    written += 1
                except HoldfastError:
                    refused += 1
        finally:
            racer.kill()
    assert read
    assert refused
    assert sorted(path.name for path in outside.iterdir()) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == SECRET


def test_both_ways_fail_alike(tmp_path: Path) -> None:
    """The same code for the same trouble: links, missing names, files used as folders."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to("folder")
    here = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for names in (
            ("file",), ("link",), ("to-folder", "x"), ("nothing",), ("nothing", "x"), ("file", "x"),
            ("to-folder",), ("folder", "x"), ("x" * 300,),
        ):  # fmt: skip
            for flags in (FILE, FOLDER):
                found = []
                for opener in (OPENERS["kernel"], by_steps):
                    try:
                        os.close(opener(here, names, flags))
                        found.append(0)
                    except OSError as error:
                        found.append(error.errno or -1)
                assert found[0] == found[1], names
    finally:
        os.close(here)


MOUNTED = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from holdfast.vocabulary.errors import HoldfastError, Refused
from tests.adapters.files.stage import OPENERS, Stage
for opener in OPENERS.values():
    stage = Stage(Path(sys.argv[1]), opener)
    for path in ("mnt/secret.txt", "file.txt"):
        for attempt in (
            lambda: stage.read(path),
            lambda: stage.edit(path, "outside", "x"),
            lambda: stage.write(path, "x", etag="*"),
        ):
            try:
                attempt()
            except Refused as error:
                assert "mount" in error.message, error.message
            else:
                raise AssertionError(path)
    assert all("secret" not in one.path for one in stage.look(depth=3).entries)
"""


def test_a_bind_mount_of_the_same_file_system_is_not_entered(tmp_path: Path) -> None:
    """Neither a folder nor a file; it takes a mount of our own to see that."""
    stage = Stage(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    (stage.tree / "mnt").mkdir()
    stage.put("file.txt", "")
    binds = "mount --bind outside tree/mnt && mount --bind outside/secret.txt tree/file.txt"
    may = ["unshare", "--mount", "sh", "-c", f"{binds} && echo yes"]
    try:
        is_possible = subprocess.run(may, cwd=tmp_path, capture_output=True).stdout == b"yes\n"
    except FileNotFoundError:
        is_possible = False
    if not is_possible:
        pytest.skip("mounting takes root")
    words = ["unshare", "--mount", "sh", "-c", f'{binds} && exec "$@"', "sh", sys.executable]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [*words, "-c", MOUNTED, str(tmp_path), str(root)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "outside" / "secret.txt").read_text() == SECRET
