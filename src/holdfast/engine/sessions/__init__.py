"""Sessions of assistants and agents, and the services that they own."""
