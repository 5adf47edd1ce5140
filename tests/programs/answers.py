"""A web server of few words: answers what a file says, counts what it was asked.

answers.py PORT FOLDER [STATUS…]. `FOLDER/status` overrides the statuses, which are answered in
turn. A status of 0 never answers. Each request adds a byte to `FOLDER/asked`. PORT 0 chooses
one and writes it to `FOLDER/port`.
"""

import itertools
import os
import socket
import sys

port, folder, statuses = int(sys.argv[1]), sys.argv[2], sys.argv[3:] or ["200"]
turn = itertools.cycle(statuses)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(64)
with open(os.path.join(folder, "port.new"), "w") as file:
    file.write(str(listener.getsockname()[1]))
os.rename(os.path.join(folder, "port.new"), os.path.join(folder, "port"))
hung = []
while True:
    peer, _ = listener.accept()
    peer.recv(4096)
    try:
        with open(os.path.join(folder, "status")) as file:
            status = file.read().strip()
    except OSError:
        status = next(turn)
    with open(os.path.join(folder, "asked"), "a") as file:
        file.write("x")
    if status == "0":
        hung.append(peer)
        continue
    peer.sendall(f"HTTP/1.1 {status} Word\r\ncontent-length: 2\r\n\r\nok".encode())
    peer.close()
