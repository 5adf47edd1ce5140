"""orphans.py COUNT: leaves COUNT daemons that end at once, prints «left», then stays."""

import os
import sys
import time

for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.05)
        os._exit(0)
    os.waitpid(child, 0)
print("left", flush=True)
while True:
    time.sleep(300)
