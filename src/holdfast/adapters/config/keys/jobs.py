"""The keys of `jobs` and `queue`: kinds of jobs by name, and the queue that runs them.

A template has the keys of a service that say how a process is started and limited, and others for
how often it is tried and what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.adapters.config.document import Node, Scalar, Table, TableEntry
from holdfast.adapters.config.keys.services import SERVICE, ServiceBuilder
from holdfast.adapters.config.kinds.blocks import Block, Key, MapOf, SpecOf, Values
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    Integer,
    Interval,
    Size,
    Text,
)
from holdfast.vocabulary.specs.jobs import BackoffSpec, JobTemplate, QueueSpec, RateSpec

NAME = r"[a-z0-9][a-z0-9_-]{0,30}"
MOST_AT_ONCE = 10_000
OF_PROCESS = (
    *("command", "args", "shell", "working_dir", "env", "env_file", "environment", "stop"),
    *("success_exit_codes", "user", "umask", "rlimits", "memory_limit", "cpu_limit"),
    *("process_limit", "timeout", "log"),
)
"""Keys that a template has in common with a service."""
_LONG = Duration("s", is_zero_allowed=False)
BACKOFF = Block(
    [
        Key("type", Choice("exponential", "fixed"), "Twice as long after each failure, or not."),
        Key("delay", Duration("s"), "How long it waits after the first failure."),
    ],
    spec=BackoffSpec,
    definition="backoff",
)
RATE = Block(
    [
        Key("max", Integer(1, 1_000_000), "So many are started …"),
        Key("per", _LONG, "… within so much time."),
    ],
    spec=RateSpec,
    definition="rate",
)


class Rate(SpecOf):
    """A rate, whose number has no default."""

    def read(self, node: Node, key: str, reading: Reading) -> RateSpec | None:
        values = self.block.read(node, key, reading)
        if values is None or values.refused:
            return None
        if "max" not in values:
            reading.note(node, key, "a rate says how many", "add max: 10")
            return None
        return RateSpec(**values)


JOB = Block(
    [
        *(SERVICE.keys[name] for name in OF_PROCESS),
        Key("description", Text(), "What it is for."),
        Key("takes_args", Boolean(), "An operator may add arguments to its command."),
        Key("attempts", Integer(1, 1000), "How often it is tried."),
        Key("backoff", SpecOf(BACKOFF), "How long it waits between two attempts."),
        Key("concurrency", Integer(1, MOST_AT_ONCE), "So many of them run at once."),
        Key("priority", Integer(-1_000_000, 1_000_000), "Lower goes first."),
        Key("rate", Rate(RATE), "How many are started in a time."),
        Key("remove_on_complete", Boolean(), "Take it off the list when it is completed."),
        Key("remove_on_fail", Boolean(), "Take it off the list when it has failed for good."),
        Key("keep_failed", _LONG, "How long a failed one is kept; else as the queue says."),
    ],
    spec=JobTemplate,
    definition="job",
    synonyms={
        "cwd": "working_dir",
        "retries": "attempts",
        "max_attempts": "attempts",
        "limiter": "rate",
        "removeoncomplete": "remove_on_complete",
        "removeonfail": "remove_on_fail",
    },
)
QUEUE = Block(
    [
        Key("name", Text(r"[a-z0-9][a-z0-9._-]{0,62}", "a name"), "Its name."),
        Key("concurrency", Integer(1, MOST_AT_ONCE), "So many jobs run at once."),
        Key("rate", Rate(RATE), "How many jobs are started in a time."),
        Key("keep_failed", _LONG, "How long failed jobs are kept."),
        Key("log_size", Size(0, 1 << 50), "How much output of all jobs is kept."),
        Key("lease", Interval(2.0), "A job is ended when nobody confirms it for so long."),
    ],
    spec=QueueSpec,
    definition="queue",
    synonyms={
        "maxconcurrentprocesses": "concurrency",
        "max_concurrent_processes": "concurrency",
        "limiter": "rate",
    },
)


class JobBlock(Kind):
    """The block of a template, or its command alone."""

    wanted = "a job"

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if isinstance(node, Scalar) and not node.is_null:
            here = Scalar("command", True, node.line, node.column)
            node = Table({"command": TableEntry(here, node)}, node.line, node.column)
        return JOB.read(node, key, reading)

    def schema(self) -> Schema:
        command = SERVICE.keys["command"].kind.schema()
        return {"anyOf": [*command["anyOf"], JOB.schema()]}


class JobsByName(MapOf):
    """The templates by name, which is in the ids of their jobs."""

    wanted = "a mapping of jobs"

    def __init__(self) -> None:
        super().__init__(JobBlock(), NAME)

    def wrong_name(self, name: str) -> tuple[str, str]:
        rule = "use lower-case letters, digits, '-' and '_', at most 31"
        return f'"{name}" cannot name a job', rule


def build_jobs(
    reading: Reading, written: Mapping[str, Values], builder: ServiceBuilder
) -> dict[str, JobTemplate]:
    """Return the templates by name."""
    templates: dict[str, JobTemplate] = {}
    for name, values in written.items():
        command, args = builder.split_command(values)
        service = builder.build_service(name, values, command, args)
        fields = {key: value for key, value in JOB.fill(values).items() if key != "service"}
        templates[name] = JobTemplate(
            service=msgspec.structs.replace(
                service, restart_policy="never", probes=(), notify=None, depends_on=()
            ),
            **fields,
        )
    return templates


JOBS_KEY = Key("jobs", JobsByName(), "Jobs by name; a text instead of a block is the command.")
QUEUE_KEY = Key("queue", SpecOf(QUEUE), "The queue that runs jobs.")
