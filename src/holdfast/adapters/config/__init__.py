"""THE parser of configurations: from a file, the environment and the command line to specs.

Nobody else reads a configuration. It starts nothing and changes nothing; whatever is wrong is
told all at once, each with its place, and no secret is ever repeated.
"""

from __future__ import annotations

from holdfast.adapters.config.interpolation import argv_of
from holdfast.adapters.config.loading import from_environment, load, load_instances, load_project

__all__ = ["argv_of", "from_environment", "load", "load_instances", "load_project"]
