"""Makes the ids of runs. Ids sort by the time at which they were made."""

from __future__ import annotations

import os
import time


def new_run_id() -> str:
    """Return a fresh id, with the time in milliseconds first."""
    return f"run-{int(time.time() * 1000):011x}{os.urandom(5).hex()}"
