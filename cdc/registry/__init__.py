"""The registry that schemas of records are kept in: its HTTP client, and what was asked of it."""
