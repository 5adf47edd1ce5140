"""Permission for the whole Holdfast: mode, lockdown, approvals, security counters."""
