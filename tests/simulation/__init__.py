"""Capture's own loop on a simulated source, Kafka and clock: one seed is one history."""
