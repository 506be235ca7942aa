"""How sizes and durations are written for people."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(size: int | None) -> str:
    """``12.3 MB``; a dash for what is not known."""
    if size is None:
        return "-"
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{size} B"


def age(seconds: float) -> str:
    """``42 s``, ``7 min``, ``3 h``, ``2 d``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
