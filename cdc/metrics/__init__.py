"""Metrics and probes of a long-running process over HTTP."""
