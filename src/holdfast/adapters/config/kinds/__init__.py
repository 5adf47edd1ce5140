"""How values are read: each kind turns a node of the document into a value and has a schema."""
