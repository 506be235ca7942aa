"""Views in Redis."""
