"""Runs git in repositories: commands, cached status, checkpoints."""
