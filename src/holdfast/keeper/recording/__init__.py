"""From a pipe to the log: intake, recorder, and the files of segments."""
