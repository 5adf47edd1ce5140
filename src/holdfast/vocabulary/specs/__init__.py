"""What users declare, after parsing: complete, typed and frozen, with the product's defaults."""
