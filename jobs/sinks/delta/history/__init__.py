"""Delta tables of views with ``history``."""
