"""THE parser of configurations: from a file, the environment and the command line to specs.

Nothing else reads a configuration. The parser starts nothing and changes nothing. It reports all
problems at once, each with its place, and repeats no secret.
"""

from __future__ import annotations

from holdfast.adapters.config.loading import load, load_instances, load_project
from holdfast.adapters.config.resolved import resolve_project

__all__ = ["load", "load_instances", "load_project", "resolve_project"]
