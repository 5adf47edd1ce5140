"""Processes beyond the main one: trees, orphans, cgroups, and survivors of earlier keepers."""
