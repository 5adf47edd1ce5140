"""What can be typed: the verbs and their options, how a line is read, help and completion."""
