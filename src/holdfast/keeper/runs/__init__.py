"""The life of a run: launch, spawn, input, leases, the kill chain, exits and their journal."""
