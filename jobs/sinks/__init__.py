"""Stores that views are kept in: a folder each, one contract for all (``jobs.sinks.contract``)."""
