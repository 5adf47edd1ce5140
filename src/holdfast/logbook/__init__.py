"""The log's format and its readers: segments, index, cursors, lines, following.

Standard library only. The only writer is the keeper.
"""
