"""``headwater serve``: the API over HTTP, and its users."""

from headwater.cli.serve.command import register

__all__ = ["register"]
