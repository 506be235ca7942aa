"""Views in Delta Lake."""
