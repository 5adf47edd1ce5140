"""The handlers of commands about git and checkpoints."""
