"""``headwater uninstall``: all that Headwater made for a source is removed."""

from headwater.cli.uninstall.command import register

__all__ = ["register"]
