"""Processes as users are told of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from holdfast.adapters import processes
from holdfast.vocabulary.errors import Failed


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
