"""What a service does next: the table of states, restarts, recovery, restoring after a death."""
