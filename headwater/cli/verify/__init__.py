"""``headwater verify``: source and view compared row by row at one LSN."""

from headwater.cli.verify.command import register

__all__ = ["register"]
