"""The formats that a configuration can be written in."""

from __future__ import annotations

from holdfast.migration.exports import (
    compose,
    kubernetes,
    nomad,
    procfile,
    supervisord,
    systemd,
)
from holdfast.migration.exports.declared import Writer

WRITERS: dict[str, Writer] = {
    "systemd": systemd.write,
    "compose": compose.write,
    "kubernetes": kubernetes.write,
    "nomad": nomad.write,
    "procfile": procfile.write,
    "supervisord": supervisord.write,
}
