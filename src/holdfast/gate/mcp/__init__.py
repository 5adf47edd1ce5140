"""The assistants' door: the Model Context Protocol, over HTTP and over a Unix socket.

Like the rest of the gate it decides nothing: a tool becomes one or more commands, each of
which goes to the line door with the caller's token. Nothing here is imported before the gate
answers; the protocol's library takes a second to load (`door` does it in the background).
"""
