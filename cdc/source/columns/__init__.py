"""Which columns of a table leave the source."""
