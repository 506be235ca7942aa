"""``headwater table``: tables that join and leave a running capture."""

from headwater.cli.table.command import register

__all__ = ["register"]
