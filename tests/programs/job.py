"""A job that counts itself: no second process of the same job may live at the same time.

`job.py FOLDER SECONDS`: takes the lock of this job, notes begin and end in FOLDER/runs.
"""

import fcntl
import os
import sys
import time

folder, seconds = sys.argv[1], float(sys.argv[2])
job = os.environ["HOLDFAST_JOB_ID"]


def note(word: str) -> None:
    line = f"{word} {job} {os.getpid()}\n".encode()
    fd = os.open(f"{folder}/runs", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line)
    os.close(fd)


lock = os.open(f"{folder}/{job}.lock", os.O_RDWR | os.O_CREAT)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    note("overlap")
    sys.exit(9)
note("begin")
time.sleep(seconds)
note("end")
