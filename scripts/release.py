"""Makes a release: `python scripts/release.py 0.2.0 [--try]`; `scripts/release` calls it.

Builds the source distribution and the wheel twice in different folders and compares them byte for
byte; installs the wheel in a fresh environment and goes through a short story there; writes the
bill of materials and the hashes. Without --try, the changelog is written, committed and tagged.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / ".scratch" / "release"
PAGE = Path("src/holdfast/gate/dashboard")
VERSION_FILES = (
    (Path("pyproject.toml"), r'(?m)^(version = )"[^"]+"'),
    (Path("src/holdfast/__init__.py"), r'(?m)^(__version__ = )"[^"]+"'),
)
STORY_SECONDS = 60


class ReleaseFailed(Exception):
    """A step found something that must not be released."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/release")
    parser.add_argument("version")
    parser.add_argument("--try", dest="is_trial", action="store_true", help="change nothing here")
    options = parser.parse_args(arguments)
    try:
        release(options.version, is_trial=options.is_trial)
    except ReleaseFailed as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


def release(version: str, *, is_trial: bool) -> None:
    check_version(version)
    if not is_trial:
        if git("status", "--porcelain"):
            raise ReleaseFailed("there are changes that are not committed")
        if git("tag", "--list", f"v{version}"):
            raise ReleaseFailed(f"the tag v{version} exists")
    run([sys.executable, "hatch_build.py"])
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    built = build_twice(version)
    wheel = next(path for path in built if path.suffix == ".whl")
    check_wheel(wheel, version)
    tell_story(wheel, version)
    bill = OUT / f"holdfast_supervisor-{version}.cdx.json"
    pins = (ROOT / "requirements/run.txt").read_text()
    bill.write_text(json.dumps(bill_of_materials(version, pins), indent=2) + "\n")
    write_hashes([*built, bill], OUT / "SHA256SUMS")
    if is_trial:
        print(f"release: {version} could be released; see {OUT.relative_to(ROOT)}")
        return
    set_version(ROOT, version)
    run([sys.executable, "scripts/changelog.py", version])
    run(["git", "add", "-A"])
    run(["git", "commit", "-q", "-m", f"release: {version}"])
    run(["git", "tag", "-a", f"v{version}", "-m", f"Holdfast {version}"])
    print(f"release: tagged v{version}; what to publish is in {OUT.relative_to(ROOT)}")


def check_version(version: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        raise ReleaseFailed(f"{version} is no version: write 1.2.3 or 1.2.3rc1")


def set_version(root: Path, version: str) -> None:
    for name, pattern in VERSION_FILES:
        text, count = re.subn(pattern, rf'\1"{version}"', (root / name).read_text())
        if count != 1:
            raise ReleaseFailed(f"{name} has {count} versions")
        (root / name).write_text(text)


def build_twice(version: str) -> list[Path]:
    """Build in two folders of different names and times; return the files of the first."""
    epoch = git("log", "-1", "--format=%ct") or "0"
    results: list[dict[str, bytes]] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-release-") as folder:
        sources = [Path(folder) / "first", Path(folder) / "the second one"]
        copy_source(sources[0])
        set_version(sources[0], version)
        shutil.copytree(sources[0], sources[1], copy_function=shutil.copy)
        for source in sources:
            out = source.with_suffix(".out")
            environ = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
            run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], source, environ)
            results.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    first, second = results
    different = [name for name in first if first[name] != second.get(name)]
    if different or set(first) != set(second) or len(first) != 2:
        raise ReleaseFailed(f"two builds differ: {', '.join(different) or sorted(first)}")
    for name, content in first.items():
        (OUT / name).write_bytes(content)
        print(f"release: {name}, {len(content) // 1024} KiB, the same in both builds")
    return [OUT / name for name in first]


def copy_source(target: Path) -> None:
    """Copy what git has, and the page that was built."""
    for name in git("ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    shutil.copytree(ROOT / PAGE, target / PAGE, dirs_exist_ok=True)


def check_wheel(wheel: Path, version: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        told = archive.read(metadata).decode()
    if f"\nVersion: {version}\n" not in told:
        raise ReleaseFailed(f"{wheel.name} says another version")
    for name in ("holdfast/gate/dashboard/index.html", "holdfast/schema/holdfast.schema.json"):
        if name not in names:
            raise ReleaseFailed(f"{wheel.name} lacks {name}")


def tell_story(wheel: Path, version: str) -> None:
    """Install the wheel where nothing else is, and use it as somebody new would."""
    # Sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="hf-", dir="/tmp") as folder:
        place = Path(folder)
        run([sys.executable, "-m", "venv", str(place / "env")])
        pip = [str(place / "env/bin/python"), "-m", "pip", "install", "-q"]
        pip.append("--disable-pip-version-check")
        run([*pip, "--require-hashes", "-r", str(ROOT / "requirements/run.txt")])
        run([*pip, "--no-deps", str(wheel)])
        project = place / "shop"
        project.mkdir()
        (project / "Procfile").write_text("web: sh -c 'echo hello; exec sleep 600'\n")
        environ = {
            "PATH": f"{place}/env/bin:{os.environ['PATH']}", "HOME": folder, "LANG": "C.UTF-8",
            "HOLDFAST_STATE_DIR": f"{place}/state", "XDG_RUNTIME_DIR": folder,
        }  # fmt: skip

        def holdfast(*words: str) -> str:
            return run(["holdfast", *words], project, environ)

        if holdfast("--version").strip() != f"holdfast {version}":
            raise ReleaseFailed("the program says another version")
        holdfast("init")
        holdfast("up", "-d")
        try:
            deadline = time.monotonic() + STORY_SECONDS
            while "hello" not in holdfast("logs", "web"):
                if time.monotonic() > deadline:
                    raise ReleaseFailed("the output of a service did not come")
                time.sleep(0.2)
            if "running" not in holdfast("status"):
                raise ReleaseFailed("a service does not run")
        finally:
            holdfast("down")
    print("release: installed in a fresh environment: init, up, logs, status, down")


def bill_of_materials(version: str, pins: str) -> dict[str, Any]:
    """Return what an installation consists of, as CycloneDX has it."""
    components: list[dict[str, Any]] = []
    for line in pins.splitlines():
        if found := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line):
            name, pinned = found[1], found[2]
            url = f"pkg:pypi/{name.lower()}@{pinned}"
            component = {"type": "library", "name": name, "version": pinned}
            components.append({**component, "purl": url, "bom-ref": url, "hashes": []})
        elif (found := re.search(r"--hash=sha256:([0-9a-f]{64})", line)) and components:
            components[-1]["hashes"].append({"alg": "SHA-256", "content": found[1]})
    own = f"pkg:pypi/holdfast-supervisor@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "name": "holdfast-supervisor", "version": version,
                "purl": own, "bom-ref": own, "licenses": [{"license": {"id": "MIT"}}],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }  # fmt: skip


def write_hashes(paths: list[Path], target: Path) -> None:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in paths]
    target.write_text("\n".join(lines) + "\n")


def git(*words: str) -> str:
    return run(["git", *words]).strip("\n")


def run(words: list[str], folder: Path = ROOT, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseFailed(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
