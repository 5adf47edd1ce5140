"""Ports: which are leased, and which process listens on one."""
