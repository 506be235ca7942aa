"""``headwater trace``: the way of one row from its commit to the stores."""

from headwater.cli.trace.command import register

__all__ = ["register"]
