"""Holds a lock as long as it lives, and tells a file if another process of its service has it."""

import fcntl
import os
import signal
import sys
import time

FOLDER, SERVICE = sys.argv[1], os.environ["HOLDFAST_SERVICE"]
lock = os.open(f"{FOLDER}/{SERVICE}.lock", os.O_CREAT | os.O_RDWR, 0o600)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    with open(f"{FOLDER}/collisions", "a") as file:
        file.write(f"{SERVICE} {os.getpid()}\n")


def leave(*_: object) -> None:
    time.sleep(os.getpid() % 3 * 0.05)
    os._exit(0)


signal.signal(signal.SIGTERM, leave)
while True:
    time.sleep(1000)
