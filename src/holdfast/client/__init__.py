"""Connections to a running Holdfast, for the command line, the gate and programs; finding and
starting one. Standard library only."""
