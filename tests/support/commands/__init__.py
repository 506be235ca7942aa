"""Headwater as a user runs it, and its processes killed."""
