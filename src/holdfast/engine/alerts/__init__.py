"""Alerts: which are open, where they are delivered, and which run of a service went well last."""
