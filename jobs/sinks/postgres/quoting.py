"""Names and constants quoted for SQL of PostgreSQL. Pure."""

from __future__ import annotations


def ident(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A constant for SQL that takes no parameters."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
