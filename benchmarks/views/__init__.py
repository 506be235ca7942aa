"""Measurements of views."""
