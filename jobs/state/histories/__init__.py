"""Changes queued for views with ``history``."""
