"""Ripgrep: where it is, what it prints, and which files of a log it reads. Runs nothing itself."""
