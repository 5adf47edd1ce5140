"""Writes a configuration for other supervisors: a writer for each format, and what is lost.

The counterpart of the readers beside it. A writer takes what it can say from a declared service;
whatever else the configuration says is a loss, without anybody having to list it.
"""
