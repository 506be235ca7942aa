"""The pipeline as JSON: figures that all clients share."""
