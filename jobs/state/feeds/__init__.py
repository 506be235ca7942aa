"""The changes of views whose changes are served: written with the dirty keys, read by serve."""
