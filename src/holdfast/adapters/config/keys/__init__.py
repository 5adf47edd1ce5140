"""The keys of the configuration by subject, and the specs that are built from them."""
