"""The example of ports does what its comments say."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

from tests.harness import Hold

EXAMPLE = Path(__file__).parents[2] / "examples" / "ports"


def test_the_example() -> None:
    """Every service and instance answers at its own port."""
    with Hold() as hold:
        shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
        hold.up()
        services = hold.status()["services"]
        ports = [port for one in services.values() for port in one["ports"].values()]
        assert len(set(ports)) == 4
        web = services["web"]["ports"]
        with urllib.request.urlopen(f"http://127.0.0.1:{web['port']}/", timeout=30) as answer:
            assert answer.read().decode() == f"PORT={web['port']} PORT_DEBUG={web['debug']}"
