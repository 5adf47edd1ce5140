"""A known load: burn CPU_SECONDS, hold MEGABYTES, open FILES, write BYTES to PATH; a child
burns as much and ends, another lives on, and a third is forked twice and lives alone."""

import os
import sys
import time

cpu_seconds, megabytes, files, size = float(sys.argv[1]), *map(int, sys.argv[2:5])
path = sys.argv[5]


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


if os.fork() == 0:
    burn(cpu_seconds)
    os._exit(0)
os.wait()
lasting = os.fork()
if lasting == 0:
    time.sleep(1000)
    os._exit(0)
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        burn(cpu_seconds)
        with open(path + ".orphan", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
os.waitpid(middle, 0)
burn(cpu_seconds)
memory = bytearray(megabytes * 1000 * 1000)
for place in range(0, len(memory), 4096):
    memory[place] = 1
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(files)]
with open(path, "wb", 0) as written:
    written.write(b"x" * size)
    os.fsync(written.fileno())
while not os.path.exists(path + ".orphan"):
    time.sleep(0.01)
print("loaded", flush=True)
time.sleep(1000)
