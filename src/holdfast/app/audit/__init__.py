"""How commands get on record, and how much of the record each actor may fill."""
