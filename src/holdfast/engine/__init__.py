"""The running machinery of the supervisor, one room for each subject."""
