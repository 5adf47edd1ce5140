"""The doors in the supervisor's own process: JSON lines over a Unix socket and over TCP."""
