"""The rule of maintenance, tried with random views and histories: see ``kept``."""
