"""A SELECT as a tree of query blocks with all names resolved. Pure."""
