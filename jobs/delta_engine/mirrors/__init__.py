"""Mirrors of source tables in Delta, for ``state = "delta"``."""
