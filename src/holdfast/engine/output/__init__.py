"""Subscribers to the output of services, and how much each has printed."""
