"""What is proven of a SELECT: its key, its determinism, what is not null. Pure."""
