"""Alerts: which are open, who is told, and which run of a service went well last."""
