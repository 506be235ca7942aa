"""A micro-batch applied to the state database, in one transaction."""
