"""A stage for the log, as the tests of the log have it."""

from __future__ import annotations

from tests.logbook.conftest import stage

__all__ = ["stage"]
