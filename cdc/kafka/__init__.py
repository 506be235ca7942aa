"""Kafka: clients and their security, producers, topics, and what partitions hold already."""
