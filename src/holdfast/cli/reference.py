"""Writes docs/reference/cli.md to standard output: `python -m holdfast.cli.reference`."""

from __future__ import annotations

import sys

from holdfast.cli.parser.help import reference

if __name__ == "__main__":
    sys.stdout.write(reference())
