"""What the supervisor asks of the system for itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from holdfast.adapters import processes
from holdfast.vocabulary.errors import Failed

_CODE = """
import sys
from holdfast.adapters import processes

own = "/proc/self/oom_score_adj"
with open(own, "w") as file:
    file.write(sys.argv[1])
processes._OOM_SCORE = 500
processes.lower_oom_score()
with open(own) as file:
    print(file.read())
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize(("born", "then"), [(1000, 500), (400, 400)])
def test_an_oom_score_is_lowered_and_never_raised(born: int, then: int) -> None:
    """A supervisor that was born as a later victim than it would make itself stays one."""
    done = subprocess.run([sys.executable, "-c", _CODE, str(born)], capture_output=True, check=True)
    assert int(done.stdout) == then


@pytest.mark.skipif(not os.path.exists("/proc/2/stat"), reason="sees no thread of the kernel")
def test_a_thread_of_the_kernel_is_not_adopted() -> None:
    """No signal ends it: a Holdfast that had it could neither stop it nor go down."""
    with open("/proc/2/stat", encoding="ascii") as file:
        if "(kthreadd)" not in file.read():
            pytest.skip("process 2 is somebody else")
    with pytest.raises(Failed, match="a thread of the kernel"):
        processes.find(2, None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux counts")
def test_a_start_is_told_to_the_tick() -> None:
    """It lies between the moments before and after the start, not in the second before."""
    before = time.time()
    with subprocess.Popen(["sleep", "1000"]) as child:
        after = time.time()
        [found] = processes.describe([{"pid": child.pid}])
        child.kill()
    assert found.started_at is not None
    assert before - 0.03 <= found.started_at <= after + 0.03
