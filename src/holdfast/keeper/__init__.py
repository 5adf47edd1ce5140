"""The process that holds: spawns, reaps, records, keeps descriptors. Standard library only."""
