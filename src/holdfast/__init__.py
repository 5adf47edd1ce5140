"""Holdfast keeps processes running and never lets go.

This module stays empty of imports: the keeper and the CLI load it at every start.
"""

__version__ = "0.1.0"
