"""Ripgrep: where it is, what it says, and where in a log that is. Runs nothing itself."""
