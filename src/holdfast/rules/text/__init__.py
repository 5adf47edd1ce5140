"""Texts: encodings, edits, patches, globs, excerpts."""
