"""One runner per service: the sole writer of its state, and everything that belongs to its runs."""
