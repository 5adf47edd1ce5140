"""Git repositories: where one is, and what git's answers mean. Runs nothing itself."""
