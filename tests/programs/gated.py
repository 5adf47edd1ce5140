"""Prints `ready` once a file is there; ends with its content as exit code if it is a number."""

import os
import sys
import time

gate = sys.argv[1]
print("waiting", flush=True)
while not os.path.exists(gate):
    time.sleep(0.01)
with open(gate) as file:
    content = file.read().strip()
print(f"ready {content}", flush=True)
if content.isdigit():
    sys.exit(int(content))
while True:
    time.sleep(60)
