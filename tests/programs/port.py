"""port.py PORT: a wrapper whose worker, in its own session, holds a port and ignores SIGTERM.

The worker prints «bound PID», or why it could not bind; the wrapper obeys SIGTERM at once.
"""

import os
import signal
import socket
import sys
import time

if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", int(sys.argv[1])))
        server.listen()
    except OSError as error:
        print(error, flush=True)
    else:
        print("bound", os.getpid(), flush=True)
while True:
    time.sleep(300)
