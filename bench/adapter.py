"""Holdfast for the shared benchmark of supervisors: pass this file with --adapter."""

import subprocess
import sys
from pathlib import Path

from adapters.base import Peer

# Beside this file; the harness has a module named `bench` itself.
sys.path.append(str(Path(__file__).resolve().parent))

import peers


class Holdfast(peers.Holdfast, Peer):
    name = "holdfast"
    MULTI_PROCESS = True
    NOTES = "rotation off, start_seconds 0, no restart delay; JSON lines over a kept unix socket"

    @classmethod
    def available(cls, prefix):
        if not cls.command.exists():
            return None
        return subprocess.check_output([cls.command, "--version"], text=True).strip()

    def pid_of(self, name):
        return self.service(name)["pid"]
