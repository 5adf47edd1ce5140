"""Keeps the gate process and the listening sockets of the network doors."""
