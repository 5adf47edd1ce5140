"""What services and Holdfast itself use: sampling, limits, history, counters."""
