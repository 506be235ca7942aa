"""Rows that differ from the source, set right."""
