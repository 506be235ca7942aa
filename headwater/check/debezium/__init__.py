"""Checks where a connector of Debezium fills the topics."""
