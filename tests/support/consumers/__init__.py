"""Consumers that other projects made of Debezium's events, run on a shop's changes."""
