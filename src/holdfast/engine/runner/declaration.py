"""The declaration of a service: its specification, and the environment that it starts from.

Makes the keeper's `spawn` request of it; no other module does. Declarations are kept in the
keeper's memory, because environments hold secrets, which the database must not.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.rules.plan import Trace
from holdfast.vocabulary.quantities import parse_signal
from holdfast.vocabulary.specs.services import ServiceSpec

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import LogSettings, SpawnRequest, StopSettings

UNBUFFERED = "PYTHONUNBUFFERED"
DEFAULT_COLUMNS, DEFAULT_ROWS, DEFAULT_TERM = 80, 24, "xterm-color"


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments and variables that one restart changes, until the next start."""

    args: tuple[str, ...] | None = None
    env_vars: dict[str, str] = {}


class Declaration:
    """A service's specification and the environment that it starts from. Never changed."""

    __slots__ = ("environ", "environ_key", "spec")

    def __init__(
        self, spec: ServiceSpec, environ: dict[str, str] | None = None, environ_key: str = ""
    ) -> None:
        self.spec = spec
        self.environ = environ or {}
        self.environ_key = environ_key or environ_digest(self.environ)


class StoredDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """A declaration in the keeper's memory. Services with the same environment share it by its
    digest."""

    spec: ServiceSpec
    environ: str
    overrides: Overrides | None = None
    launched: ServiceSpec | None = None
    """The specification that `launched_run` was started with, if it is another one."""
    launched_run: str | None = None
    trace: Trace | None = None
    """A digest of that, where it is not known."""


def environ_digest(environ: dict[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode(environ, order="deterministic")).hexdigest()[:16]


def spawn_message(
    declaration: Declaration, overrides: Overrides | None, run_id: str, number: int
) -> SpawnRequest:
    """The keeper's `spawn` request for one run of the service."""
    spec = declaration.spec
    argv = list(spec.argv)
    if overrides is not None and overrides.args is not None:
        argv = [*argv[: spec.command_words], *overrides.args]
    env = {**spec.env, **(overrides.env_vars if overrides is not None else {})}
    message: SpawnRequest = {
        "do": "spawn",
        "run_id": run_id,
        "service": spec.name,
        "number": number,
        "kind": "terminal" if spec.terminal else "service",
        "argv": argv,
        "env": env,
        "cwd": spec.working_dir,
        "stdin": spec.stdin,
        "log": log_settings(spec),
        "stop": stop_settings(spec),
    }
    if spec.environment == "inherit":
        # The keeper has the caller's environment already, and adds `env` to it.
        message["environ"] = keeper_memory.environ(declaration.environ_key)
    if spec.environment == "clean" or UNBUFFERED not in declaration.environ:
        # Without it a Python program keeps what it prints to a pipe, until there are 8 KiB.
        env.setdefault(UNBUFFERED, "1")
    if spec.terminal:
        message["cols"], message["rows"] = DEFAULT_COLUMNS, DEFAULT_ROWS
        # The service gets a terminal of its own, not the caller's.
        env.setdefault("TERM", DEFAULT_TERM)
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
    """The limits that the kernel can enforce. The monitor applies actions other than kill."""
    limits: dict[str, float] = {}
    if spec.memory_limit is not None and spec.memory_limit.action == "kill":
        limits["memory"] = spec.memory_limit.size
    if spec.cpu_limit is not None:
        limits["cpu"] = spec.cpu_limit
    if spec.process_limit is not None:
        limits["processes"] = spec.process_limit
    return limits


def log_settings(spec: ServiceSpec) -> LogSettings:
    return {"max_size": spec.log.max_size, "total_size": spec.log.total_size}


def stop_settings(spec: ServiceSpec) -> StopSettings:
    stop: StopSettings = {
        "signal": parse_signal(spec.stop.signal or "SIGTERM"),
        "grace": spec.stop.grace,
    }
    if spec.terminal and spec.stop.signal is None:
        # An interactive shell ignores SIGTERM, and passes SIGHUP on to its jobs.
        stop["hangup"] = True
    return stop


def undeclared(name: str) -> ServiceSpec:
    """The specification of a service of which only a run or an exit is known."""
    return ServiceSpec(
        name=name, argv=(), working_dir="/", restart_policy="never", origin="adopted"
    )
