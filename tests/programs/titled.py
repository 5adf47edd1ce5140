"""Overwrites its own environment, as setproctitle, PostgreSQL and nginx do to show a title.

With `quiet` it also lets go of the output that it was given.
"""

import ctypes
import os
import signal
import sys

with open("/proc/self/stat", "rb") as file:
    fields = file.read().rpartition(b")")[2].split()
begin, end = int(fields[47]), int(fields[48])
ctypes.memset(begin, ord("x"), end - begin)
print("titled", flush=True)
if "quiet" in sys.argv:
    null = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(null, number)
while True:
    signal.pause()
