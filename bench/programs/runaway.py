"""runaway.py FIFO NAME: starts a descendant that leaves by double fork and setsid, then idles.

Reports "NAME PID" and "NAME.descendant PID".
"""

import os
import sys
import time

fifo, name = sys.argv[1], sys.argv[2]


def report(who):
    with open(fifo, "w") as file:
        file.write(f"{who} {os.getpid()}\n")


child = os.fork()
if child == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    report(f"{name}.descendant")
    time.sleep(600)
    os._exit(0)
os.waitpid(child, 0)
report(name)
time.sleep(600)
