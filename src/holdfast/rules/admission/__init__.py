"""Dependencies: which conditions a start waits for, and in which order services start."""
