"""Takes over configurations of other supervisors: a reader for each format, and what is lost.

Only the command line uses it. Reads files and runs nothing. What cannot be carried is listed.
"""
