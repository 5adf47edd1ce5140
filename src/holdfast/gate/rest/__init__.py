"""The commands over HTTP, with their description, and pages for programs."""
