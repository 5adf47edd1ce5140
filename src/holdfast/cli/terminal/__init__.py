"""What every verb shares at the terminal: tables, times, output of services, signals, waiting."""
