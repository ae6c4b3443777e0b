"""Rows of a table, concept scores, their files, and where they come from."""
