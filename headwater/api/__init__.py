"""`headwater serve`: the change stream, waiting and lag over HTTP, in one FastAPI app."""
