"""Views, stores and state databases for tests."""
