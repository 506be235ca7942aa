"""The tables of the source that a process mirrors."""
