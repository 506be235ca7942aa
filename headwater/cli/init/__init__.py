"""``headwater init``: publication, slot, topics and the initial snapshot."""

from headwater.cli.init.command import register

__all__ = ["register"]
