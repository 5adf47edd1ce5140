"""Alerts: which events raise and clear one, and which target is told."""
