"""Git repositories: where one is, and how to read git's output. Runs nothing itself."""
