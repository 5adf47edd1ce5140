"""Resources that services and Holdfast itself use: sampling, limits, history, counters."""
