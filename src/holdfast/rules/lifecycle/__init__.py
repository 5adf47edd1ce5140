"""What a service does next: the table of states, restarts, recovery, and restoring after a death."""
