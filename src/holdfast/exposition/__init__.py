"""The numbers of the `metrics` command in the formats of other programs.

Imports the vocabulary, and the library of a format only when that format is asked for. The
supervisor never imports it.
"""
