"""count.py TRUTH LINES INTERVAL CODE [err [ENOUGH]]: prints numbered lines, then exits with CODE.

Each line goes to the file TRUTH before it goes to stdout (and every third to stderr
instead), so that a test can compare what was printed with what was recorded. It ends before
LINES when there is a file ENOUGH.
"""

import os
import sys
import time

truth, lines, interval, code = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
to_stderr = len(sys.argv) > 5
enough = sys.argv[6] if len(sys.argv) > 6 else None
fd = os.open(truth, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
due = time.monotonic()
for number in range(lines):
    if enough is not None and os.path.exists(enough):
        break
    line = f"{os.getpid()} {number}\n".encode()
    os.write(fd, line)
    os.write(2 if to_stderr and number % 3 == 0 else 1, line)
    due += interval
    time.sleep(max(0.0, due - time.monotonic()))
os._exit(code)
