"""counter.py FIFO NAME TRUTH LINES: prints numbered lines, one a 2 ms, each noted in TRUTH first.

Reports "NAME PID" when it begins and "NAME.end COUNT" when it is done; exits with 7.
"""

import os
import sys
import time

fifo, name, truth, lines = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
note = os.open(truth, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
report = os.open(fifo, os.O_WRONLY)
os.write(report, f"{name} {os.getpid()}\n".encode())
due = time.monotonic()
for number in range(lines):
    line = f"{name} {number}\n".encode()
    os.write(note, line)
    os.write(1, line)
    due += 0.002
    time.sleep(max(0.0, due - time.monotonic()))
os.write(report, f"{name}.end {lines}\n".encode())
sys.exit(7)
