"""The pipeline as people are shown it: one model, from which pages and JSON are made."""
