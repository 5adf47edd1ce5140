"""Says things over its notify socket, in order, then stays.

speaks.py WORD…: `sleep:SECONDS`, `wait:PATH` (until it exists), `touch:PATH`, `newline:FD`,
`child:TEXT` (a child says it), `print:TEXT`, `repeat:N:TEXT`, `exit:CODE`; else the text itself.
"""

import os
import signal
import socket
import sys
import time


def say(text: str) -> None:
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.send(text.encode())


for word in sys.argv[1:]:
    verb, _, rest = word.partition(":")
    if verb == "sleep":
        time.sleep(float(rest))
    elif verb == "wait":
        while not os.path.exists(rest):
            time.sleep(0.01)
    elif verb == "touch":
        open(rest, "w").close()
    elif verb == "newline":
        os.write(int(rest), b"\n")
    elif verb == "child":
        pid = os.fork()
        if not pid:
            say(rest)
            os._exit(0)
        os.waitpid(pid, 0)
    elif verb == "print":
        print(rest, flush=True)
    elif verb == "repeat":
        count, _, text = rest.partition(":")
        for _number in range(int(count)):
            say(text)
    elif verb == "exit":
        sys.exit(int(rest))
    else:
        say(word.replace("\\n", "\n"))
while True:
    signal.pause()
