"""``headwater topics``: what is changed of topics in place."""

from headwater.cli.topics.command import register

__all__ = ["register"]
