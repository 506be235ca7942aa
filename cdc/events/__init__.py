"""What changes mean: messages of the stream become the records that Kafka gets. Pure."""
