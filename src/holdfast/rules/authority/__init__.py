"""Permission: roles, policies, custom commands, filters, tokens."""
