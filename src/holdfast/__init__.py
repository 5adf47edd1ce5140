"""Holdfast is a process supervisor that survives its own crashes.

This module stays empty of imports: the keeper and the CLI load it at every start.
"""

__version__ = "0.1.0"
