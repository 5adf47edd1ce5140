"""Runs the tests marked `unprivileged` as the user nobody; arguments go to pytest.

A checkout and an interpreter below a root-only folder are out of nobody's reach, so tree and
packages are copied to a world-readable temporary folder first, and the interpreter too if needed.
"""

from __future__ import annotations

import compileall
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
NO_TESTS_COLLECTED = 5
IMPOSSIBLE = """\
unprivileged: NOT RUN: the user nobody cannot run this Python, nor a copy of it in a temporary
folder (mounted noexec?). Nothing was tested without root. Run scripts/test with a Python that
everybody may run (PYTHON=/usr/bin/python3 scripts/test) or as an ordinary user; with
HOLDFAST_TEST_AS_NOBODY=off this is no failure."""
CONFINED = """\
unprivileged: NOT RUN: this root cannot become another user (a user namespace of its own, or no
capability for it), so there is no nobody to run the tests as."""
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".scratch", ".*_cache", "__pycache__", "*.egg-info", "build", "dist"
)
NOT_NEEDED = shutil.ignore_patterns(
    "site-packages", "test", "tests", "config-*", "idlelib", "tkinter", "turtledemo", "lib2to3"
)

PROGRAMS = ("rg",)
"""What packages bring beside modules."""


def nobody() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return entry.pw_uid, entry.pw_gid


def run_as_nobody(argv: list[str], cwd: Path, env: dict[str, str], quiet: bool = False) -> int:
    uid, gid = nobody()
    output = subprocess.DEVNULL if quiet else None
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            user=uid,
            group=gid,
            extra_groups=[],
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    except OSError:
        return 126


def runs(python: Path) -> bool:
    return run_as_nobody([str(python), "-I", "-c", "import sqlite3"], Path("/"), {}, True) == 0


def make_interpreter(home: Path) -> Path:
    """An interpreter of this version that nobody can run; returns its path."""
    base = Path(sys.base_prefix)
    python = base / "bin" / VERSION
    if runs(python):
        subprocess.run([python, "-I", "-m", "venv", "--without-pip", home / "python"], check=True)
        return home / "python" / "bin" / "python"
    copy = home / "python"
    (copy / "bin").mkdir(parents=True)
    shutil.copytree(base / "lib" / VERSION, copy / "lib" / VERSION, ignore=NOT_NEEDED)
    for library in (base / "lib").glob("libpython*"):
        shutil.copy2(library, copy / "lib")
    # A shared build names its library folder in the binary; point that beside the copy instead.
    old, new = os.fsencode(base / "lib") + b"\0", b"$ORIGIN/../lib"
    binary = python.read_bytes().replace(old, new.ljust(len(old), b"\0"))
    target = copy / "bin" / VERSION
    target.write_bytes(binary)
    target.chmod(0o755)
    (copy / "bin" / "python").symlink_to(VERSION)
    return copy / "bin" / "python"


def install(home: Path, python: Path) -> Path:
    """Copies the packages and the tree; returns the tree."""
    packages = home / "python" / "lib" / VERSION / "site-packages"
    shutil.copytree(
        sysconfig.get_path("purelib"),
        packages,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("pip", "pip-*", "mypy", "ruff*", "*.pack*"),
    )
    compileall.compile_dir(packages / "holdfast", quiet=2)
    command = python.parent / "holdfast"
    command.write_text(
        f"#!{python}\nimport sys\nfrom holdfast.cli.main import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    for program in PROGRAMS:
        shutil.copy2(Path(sysconfig.get_path("scripts")) / program, python.parent)
    tree = home / "tree"
    shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
    return tree


def make_home() -> tuple[Path, Path] | None:
    """A folder with an interpreter that nobody can run; the first place that allows it."""
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        if not os.access(place, os.W_OK):
            continue
        home = Path(tempfile.mkdtemp(prefix="hfu-", dir=place))
        home.chmod(0o755)
        python = make_interpreter(home)
        if runs(python):
            return home, python
        shutil.rmtree(home, ignore_errors=True)
    return None


def main(arguments: list[str]) -> int:
    if run_as_nobody(["/bin/sh", "-c", "exit 0"], Path("/"), {}, True) != 0:
        print(CONFINED, file=sys.stderr)
        return 0
    made = make_home()
    if made is None:
        print(IMPOSSIBLE, file=sys.stderr)
        return 0 if os.environ.get("HOLDFAST_TEST_AS_NOBODY") == "off" else 1
    home, python = made
    try:
        tree = install(home, python)
        own = home / "t"
        own.mkdir(mode=0o700)
        os.chown(own, *nobody())
        env = {
            key: value
            for key, value in os.environ.items()
            if key in ("LANG", "CI", "TERM") or key.startswith(("LC_", "HOLDFAST_"))
        }
        path = os.environ.get("PATH", os.defpath)
        env |= {"PATH": f"{python.parent}:{path}", "HOME": str(own), "TMPDIR": str(own)}
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "HOLDFAST_TEST_USER": "nobody"}
        options = ["-m", "unprivileged", "-p", "no:cacheprovider", *arguments]
        status = run_as_nobody([str(python), "-m", "pytest", *options], tree, env)
        return 0 if status == NO_TESTS_COLLECTED else status
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
