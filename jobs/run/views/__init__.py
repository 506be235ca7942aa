"""The views of a process: how each is kept in its store."""
