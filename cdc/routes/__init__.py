"""Which topic a table's events go to, and what decides their keys and partitions there."""
