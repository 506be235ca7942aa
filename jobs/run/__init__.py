"""One process of ``headwater apply``: its stream, its views, their cadence, what they are told."""
