"""Measurements of capture and snapshots."""
