"""The keeper's protocol: typed messages, framing, connections, and what each word does."""
