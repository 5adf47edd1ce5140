"""Says by itself that it is ready, what it does, and that it still lives. No library needed."""

import os
import socket
import time


def say(*lines: str) -> None:
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send("\n".join(lines).encode())


time.sleep(0.3)  # connecting, loading, …
say("READY=1", "STATUS=waiting for jobs")
pause = int(os.environ.get("WATCHDOG_USEC", 10_000_000)) / 1_000_000 / 2
jobs = 0
while True:
    time.sleep(pause)
    jobs += 1
    say("WATCHDOG=1", f"STATUS={jobs} jobs done", f"X_METRIC_jobs={jobs}")
