"""The numbers of the command `metrics` in the formats of other programs. The gate and the command
line import the library of a format when it is asked for; the supervisor never does."""
