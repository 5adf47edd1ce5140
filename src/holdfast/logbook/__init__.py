"""The log's format and its readers: segments, index, cursors, lines, follow, search.

Standard library only; imports nothing of ours. The only writer is the keeper.
"""
