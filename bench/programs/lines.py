"""Prints so many lines a second, for so many seconds, once the file `go` is there; then waits."""

import os
import sys
import time

go, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
while not os.path.exists(go):
    time.sleep(0.01)
began, printed = time.monotonic(), 0
while (passed := time.monotonic() - began) < seconds:
    due = int(passed * rate)
    if due > printed:
        text = "".join(
            f"line {number:08d} of what a service says\n" for number in range(printed, due)
        )
        view = memoryview(text.encode())
        while view:
            view = view[os.write(1, view) :]
        printed = due
    time.sleep(0.005)
os.write(1, b"the end\n")
time.sleep(1000)
