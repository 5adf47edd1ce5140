"""Who is told that a service printed more, and how much it printed."""
