"""Identity and rights of callers: facts for the decision that `rules.authority` makes."""
