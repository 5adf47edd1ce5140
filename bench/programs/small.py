"""small.py GO COUNT: what small.c does, for machines without a C compiler."""

import os
import sys
import time

go, count = sys.argv[1], int(sys.argv[2])
line = b"x" * 99 + b"\n"
deadline = time.monotonic() + 120
while not os.path.exists(go) and time.monotonic() < deadline:
    time.sleep(0.002)
for _ in range(count):
    os.write(1, line)
