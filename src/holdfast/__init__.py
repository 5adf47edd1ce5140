"""Holdfast is a process supervisor that survives its own crashes.

This module imports nothing until a program asks for a client: the keeper and the CLI load it at
every start. `__init__.pyi` tells the types.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("holdfast.client.library"), name)
