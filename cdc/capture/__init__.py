"""Capture: the loop that owns the stream, the producer and all progress, and what guards it."""
