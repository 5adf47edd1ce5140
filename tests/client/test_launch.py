"""What a keeper is started with."""

from __future__ import annotations

import pytest

from holdfast.client.launch import keeper_environment
from holdfast.keeper.launch_supervisor import minimal_environment

KEPT = {
    "PATH": "/bin",
    "XDG_STATE_HOME": "/s",
    "LD_LIBRARY_PATH": "/opt/python/lib",
    "DYLD_LIBRARY_PATH": "/opt/python/lib",
}
OTHERS = {
    "LC_ALL": "de_DE.ISO-8859-1", "LANG": "ru_RU.KOI8-R", "API_KEY": "secret", "PYTHONPATH": "/p",
}  # fmt: skip


def test_keeper_and_supervisor_get_only_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that finds its library through a variable has it in both; names of files are UTF-8
    for them, whatever the locale; secrets are in none."""
    assert keeper_environment({**KEPT, **OTHERS}) == KEPT
    monkeypatch.setattr("os.environ", {**KEPT, **OTHERS})
    assert minimal_environment() == KEPT
