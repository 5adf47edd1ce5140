"""Keeps more memory every moment."""

import time

kept = []
while True:
    kept.append(bytearray(5_000_000))
    time.sleep(0.1)
