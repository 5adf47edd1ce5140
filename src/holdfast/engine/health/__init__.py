"""Readiness and health of live runs: probes, and what services report themselves."""
