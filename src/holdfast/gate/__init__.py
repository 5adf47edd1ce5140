"""The process that talks: HTTP, WebSocket and MCP for clients of the supervisor.

It passes each caller's token on and decides nothing.
"""
