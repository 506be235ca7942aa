"""Views that Spark computes: names and types resolved, and how they are kept. Pure."""
