"""flood.py FIFO NAME GO BYTES: once the file GO exists, prints BYTES of 100-byte lines in blocks of
65,000 bytes. Reports "NAME PID" when ready and "NAME.begin NANOSECONDS" (monotonic) when it begins.
"""

import os
import sys
import time

fifo, name, go, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
block = (name.ljust(99, ".") + "\n").encode() * 650
report = os.open(fifo, os.O_WRONLY)
os.write(report, f"{name} {os.getpid()}\n".encode())
deadline = time.monotonic() + 120
while not os.path.exists(go) and time.monotonic() < deadline:
    time.sleep(0.002)
os.write(report, f"{name}.begin {time.monotonic_ns()}\n".encode())
while size > 0:
    size -= os.write(1, block[:size])
