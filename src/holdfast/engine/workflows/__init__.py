"""What is done step by step: workflows, custom restarts, recovery commands."""
