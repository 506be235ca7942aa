"""Dead letters of views that Spark computes, in Kafka: put aside, found, retried."""
