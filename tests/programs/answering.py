"""A small TCP server that shares its port: answers every connection with its version and pid.

It begins to listen after `delay` seconds and prints `listening`. On SIGTERM it sends new
connections to the other one who listens, answers those that wait already, and ends. With the
version `broken` it never listens.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import time

SO_ATTACH_REUSEPORT_CBPF = 51


def pass_on(server: socket.socket) -> None:
    """Let the kernel give new connections to the second one of those who share the port."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 1))
    server.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_REUSEPORT_CBPF,
        struct.pack("HL", 1, ctypes.addressof(program)),
    )


port, version, delay = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
if os.path.exists(version):
    with open(version) as file:
        version = file.read().strip()
print(f"version {version}", flush=True)
time.sleep(delay)
if version == "broken":
    sys.exit("cannot listen")
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", port))
server.listen(128)
wake, waker = os.pipe()
signal.signal(signal.SIGTERM, lambda *_: os.write(waker, b"."))
print("listening", flush=True)
patience: float | None = None
deadline = 0.0
while True:
    watched: list[socket.socket | int] = [server] if patience else [server, wake]
    ready = select.select(watched, [], [], patience)[0]
    if server in ready and (not patience or time.monotonic() < deadline):
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(f"{version} {os.getpid()}\n".encode())
    elif wake in ready:
        pass_on(server)
        patience, deadline = 0.1, time.monotonic() + 1.0
    else:
        break
print("bye", flush=True)
