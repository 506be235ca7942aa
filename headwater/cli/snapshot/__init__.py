"""``headwater snapshot``: tables read again at an exact LSN."""

from headwater.cli.snapshot.command import register

__all__ = ["register"]
