"""Checks of alerts."""
