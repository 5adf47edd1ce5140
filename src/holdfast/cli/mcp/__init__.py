"""The verb `mcp`: a relay between an assistant and the gate, and what the assistant must know."""
