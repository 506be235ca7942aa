"""Views in PostgreSQL."""
