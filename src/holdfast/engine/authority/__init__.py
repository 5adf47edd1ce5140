"""What this Holdfast permits as a whole: mode, lockdown, approvals, security counters."""
