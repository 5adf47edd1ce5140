"""`/ws`: commands, events, output and terminals over one WebSocket."""
