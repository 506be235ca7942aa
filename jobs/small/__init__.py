"""Small batches: what Spark does for some hundred records is planned once, not compiled, and what
comes of it is read in the driver."""
