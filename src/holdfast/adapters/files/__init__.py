"""Files below the configured roots: opened beneath a descriptor, changed by replacing, undoable.

Blocking throughout: the application calls it in threads. Decides nothing about who may ask.
"""
