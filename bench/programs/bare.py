"""A bare Starlette route on the gate's server: `bare.py FD BYTES` answers so many bytes."""

import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

BODY = b'"' + b"x" * (int(sys.argv[2]) - 2) + b'"'


async def services(_):
    return Response(BODY, media_type="application/json")


app = Starlette(routes=[Route("/api/services", services)])
config = uvicorn.Config(
    app, http="httptools", ws="websockets-sansio", loop="auto", lifespan="off",
    log_level="warning", access_log=False, server_header=False, backlog=2048,
)  # fmt: skip
sock = socket.socket(fileno=int(sys.argv[1]))
print("listening", flush=True)
uvicorn.Server(config).run(sockets=[sock])
