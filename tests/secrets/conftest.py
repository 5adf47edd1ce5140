"""Logs on a stage, as the tests of the log have them."""

from __future__ import annotations

from tests.logbook.conftest import stage

__all__ = ["stage"]
