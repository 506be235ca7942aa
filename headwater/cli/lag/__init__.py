"""``headwater lag``: how far capture and the views are behind the source."""

from headwater.cli.lag.command import register

__all__ = ["register"]
