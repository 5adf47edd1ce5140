"""Several services at once: rolling restarts, and numbers of instances."""
