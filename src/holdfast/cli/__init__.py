"""The command line: a module for each family of verbs. Standard library only; it starts fast."""
