"""Who asks, and what they may ask: facts for the decision that `rules.authority` makes."""
