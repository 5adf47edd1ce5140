"""Finding secrets and redacting them, in whole values and in logs while they are read."""
