"""The job queue on disk: what every store does, and the store in SQLite."""
