"""Adapters to AI backends: a module for each dialect, and the registry that finds them."""
