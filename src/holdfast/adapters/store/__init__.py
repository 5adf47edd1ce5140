"""The history on disk: states of services, runs and events in SQLite."""
