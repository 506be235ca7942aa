"""Expressions of views, from PostgreSQL to Spark. Pure."""
