"""The handlers of commands that search: in files, and in what services printed."""
