"""Checks of what events are written with."""
