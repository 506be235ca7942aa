"""The stream of a process: micro-batches of all mirrored tables."""
