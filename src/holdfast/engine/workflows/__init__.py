"""Work in steps: workflows, custom restarts, recovery commands."""
