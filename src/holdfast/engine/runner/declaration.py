"""What a service was declared to be, with the environment it starts from.

Turned into the keeper's `spawn` message here and nowhere else. Declarations live in the
keeper's memory, because environments hold secrets and the database must not.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from holdfast.rules.plan import Trace
from holdfast.vocabulary.quantities import parse_signal
from holdfast.vocabulary.specs.services import ServiceSpec

DEFAULT_COLUMNS, DEFAULT_ROWS, DEFAULT_TERM = 80, 24, "xterm-color"
ENVIRON = "environ:"
"""Environments are kept by the keeper under this prefix and their digest."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart changed until the next start without it."""

    args: tuple[str, ...] | None = None
    env_vars: dict[str, str] = {}


class Declaration:
    """A service's specification and the environment it starts from; never changed."""

    __slots__ = ("environ", "environ_key", "spec")

    def __init__(
        self, spec: ServiceSpec, environ: dict[str, str] | None = None, environ_key: str = ""
    ) -> None:
        self.spec = spec
        self.environ = environ or {}
        self.environ_key = environ_key or environ_digest(self.environ)


class StoredDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """A declaration as the keeper remembers it; the environment is shared by its digest."""

    spec: ServiceSpec
    environ: str
    overrides: Overrides | None = None
    launched: ServiceSpec | None = None
    """What this run was started with, if it is something else."""
    launched_run: str | None = None
    trace: Trace | None = None
    """What is left of that, where it is not known."""


def environ_digest(environ: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(environ, order="deterministic")).hexdigest()[:16]


def spawn_message(
    declaration: Declaration, overrides: Overrides | None, run_id: str, number: int
) -> dict[str, Any]:
    """The keeper's `spawn` request for one run of the service."""
    spec = declaration.spec
    argv = list(spec.argv)
    if overrides is not None and overrides.args is not None:
        argv = [*argv[: spec.command_words], *overrides.args]
    message: dict[str, Any] = {
        "do": "spawn",
        "run_id": run_id,
        "service": spec.name,
        "number": number,
        "kind": "terminal" if spec.terminal else "service",
        "argv": argv,
        "env": {**spec.env, **(overrides.env_vars if overrides is not None else {})},
        "cwd": spec.working_dir,
        "stdin": spec.stdin,
        **recording(spec),
    }
    if spec.environment == "inherit":
        # The keeper has the caller's environment already; ours comes on top of it.
        message["environ"] = ENVIRON + declaration.environ_key
    if spec.terminal:
        message["cols"], message["rows"] = DEFAULT_COLUMNS, DEFAULT_ROWS
        # The caller's terminal is not the one that the service gets.
        message["env"].setdefault("TERM", DEFAULT_TERM)
    if spec.confined_to is not None:
        message["beneath"] = spec.confined_to
    if spec.sockets:
        message["pass_fds"] = list(spec.sockets)
    if spec.origin == "gate":
        message["hidden"] = True
    if spec.user is not None:
        message["user"] = spec.user
    if spec.umask is not None:
        message["umask"] = spec.umask
    if spec.rlimits:
        message["rlimits"] = {name: list(limits) for name, limits in spec.rlimits.items()}
    if limits := kernel_limits(spec):
        message["limits"] = limits
    return message


def kernel_limits(spec: ServiceSpec) -> dict[str, float]:
    """What the kernel itself may hold a run to. Other actions than kill are the monitor's."""
    limits: dict[str, float] = {}
    if spec.memory_limit is not None and spec.memory_limit.action == "kill":
        limits["memory"] = spec.memory_limit.size
    if spec.cpu_limit is not None:
        limits["cpu"] = spec.cpu_limit
    if spec.process_limit is not None:
        limits["processes"] = spec.process_limit
    return limits


def recording(spec: ServiceSpec) -> dict[str, Any]:
    """How a run is recorded and ended: what `spawn` and `adopt` share."""
    return {
        "log": {"max_size": spec.log.max_size, "total_size": spec.log.total_size},
        "stop": {"signal": parse_signal(spec.stop.signal), "grace": spec.stop.grace},
    }
