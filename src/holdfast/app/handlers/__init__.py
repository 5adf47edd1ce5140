"""The handlers of commands: a module or a folder for each subject of the vocabulary."""
