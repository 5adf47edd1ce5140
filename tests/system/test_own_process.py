"""What our processes ask of the kernel for themselves."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from holdfast.system import kernel_files, own_process
from tests.keeper.stage import in_a_subreaper

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads procfs")

_CODE = """
import sys
from holdfast.system import own_process

own = "/proc/self/oom_score_adj"
with open(own, "w") as file:
    file.write(sys.argv[1])
own_process._OOM_SCORE = 500
own_process.lower_oom_score()
with open(own) as file:
    print(file.read())
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize(("born", "then"), [(1000, 500), (400, 400)])
def test_an_oom_score_is_lowered_and_never_raised(born: int, then: int) -> None:
    """A supervisor that was born as a later victim than it would make itself stays one."""
    done = subprocess.run([sys.executable, "-c", _CODE, str(born)], capture_output=True, check=True)
    assert int(done.stdout) == then


@in_a_subreaper
def test_nofile_is_raised() -> None:
    """The soft limit becomes the hard one, and the original is told."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    assert own_process.raise_descriptor_limit() == (256, hard)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


@in_a_subreaper
def test_oom_score_is_lowered_only_with_the_right() -> None:
    """Without privileges the score stays; with them the original is told and restored."""
    before = int(kernel_files.read("/proc/self/oom_score_adj") or b"")
    original = own_process.lower_oom_score()
    if original is not None:
        assert original == before
        assert int(kernel_files.read("/proc/self/oom_score_adj") or b"") < before
        assert kernel_files.write("/proc/self/oom_score_adj", b"%d" % original)
    assert int(kernel_files.read("/proc/self/oom_score_adj") or b"") == before
