"""Counted things in messages. Pure."""


def plural(count: int, one: str, more: str = "") -> str:
    """``1 view``, ``2,000 views``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
