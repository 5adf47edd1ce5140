"""What runs and the host use, as the operating system counts it; and its history in files."""

from __future__ import annotations

import os

from holdfast.adapters.metrics.usage import SampledRun, Sampler, Totals, Usage, UsageTracker

__all__ = ["SampledRun", "Sampler", "Totals", "Usage", "UsageTracker", "new_sampler"]


def new_sampler(cgroup_root: str | None = None) -> Sampler:
    """The sampler of this system."""
    from holdfast.adapters.metrics.linux import LinuxSampler
    from holdfast.adapters.metrics.portable import PortableSampler

    if os.path.exists("/proc/self/stat"):
        return LinuxSampler(cgroup_root)
    return PortableSampler()
