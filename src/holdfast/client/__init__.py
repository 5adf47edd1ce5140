"""Connections to a running Holdfast, for the command line, the gate and programs; finding and
starting one. `library` is what programs import; all else needs the standard library only."""
