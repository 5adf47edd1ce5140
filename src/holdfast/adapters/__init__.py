"""Adapters: one module or folder for each outside thing. They decide nothing."""
