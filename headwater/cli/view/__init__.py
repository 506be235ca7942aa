"""``headwater view``: the generations of views."""

from headwater.cli.view.command import register

__all__ = ["register"]
