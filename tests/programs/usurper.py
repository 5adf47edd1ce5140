"""Leaves its family in every way there is, kills the keeper and gives orders in the owner's name.

Arguments: a folder for `go` (the keeper's pid), `where` (a socket and what to say) and `answer`,
and by how much to lower its own hard limit of real-time processor time.
It ends when the folder goes.
"""

import json
import os
import resource
import socket
import sys
import time

RLIMIT_RTTIME = 15


def leave(folder: str) -> None:
    if os.fork():
        stay(folder)
        sys.exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            with open(f"{mount}/cgroup.procs", "w") as file:
                file.write("0")
        except OSError:
            continue
    os.execve(sys.executable, [sys.executable, "-I", "-S", *sys.argv, "again"], {})


def usurp(folder: str, lowers: int) -> None:
    while not os.path.exists(f"{folder}/go"):
        stay(folder, 0.005)
    if lowers:
        hard = resource.getrlimit(RLIMIT_RTTIME)[1] - lowers
        resource.setrlimit(RLIMIT_RTTIME, (hard, hard))
    with open(f"{folder}/go") as file:
        keeper = int(file.read())
    before = os.getppid()
    os.kill(keeper, 9)
    while os.getppid() == before:
        time.sleep(0.001)
    with open(f"{folder}/where") as file:
        path, words = json.load(file)
    with open(f"{folder}/new", "wb") as file:
        file.write(ask(path, words))
    os.rename(f"{folder}/new", f"{folder}/answer")
    stay(folder)


def stay(folder: str, seconds: float = 600) -> None:
    """Wait for so long; exit as soon as the folder has gone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not os.path.isdir(folder):
            sys.exit(0)
        time.sleep(min(seconds, 0.1))


def ask(path: str, words: object) -> bytes:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        door = socket.socket(socket.AF_UNIX)
        try:
            door.connect(path)
            door.sendall(json.dumps(words).encode() + b"\n")
            if answer := door.recv(65536):
                return answer
        except OSError:
            time.sleep(0.01)
    return b""


if sys.argv[-1] == "again":
    usurp(sys.argv[1], int(sys.argv[2]))
else:
    leave(sys.argv[1])
