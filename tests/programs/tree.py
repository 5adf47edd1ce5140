"""tree.py PIDFILE MODE: a service with a descendant that is hard to end.

child: ignores SIGTERM in the same group, holds stdout. session: setsid child.
daemon: double fork with setsid. scrubbed: the same with an empty environment.
stopped: a child that has stopped itself (SIGSTOP). Writes its and the descendant's pid.
"""

import os
import signal
import sys
import time

pidfile, mode = sys.argv[1], sys.argv[2]


def note(pid: int) -> None:
    with open(pidfile, "a") as file:
        file.write(f"{pid}\n")


def descend() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode in ("session", "daemon", "scrubbed"):
        os.setsid()
    if mode in ("daemon", "scrubbed") and os.fork():
        os._exit(0)
    note(os.getpid())
    if mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if mode == "scrubbed":
        os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], {})
    while True:
        time.sleep(300)


child = os.fork()
if child == 0:
    descend()
if mode in ("daemon", "scrubbed"):
    os.waitpid(child, 0)
note(os.getpid())
print("ready", flush=True)
while True:
    time.sleep(300)
