"""Schemas of keys and values, as Kafka Connect has them, by Debezium's names. Pure."""
