"""How fast a snapshot reads at most, as ``snapshot.rate`` and ``--rate`` say it. Pure."""

from __future__ import annotations

import re

from cdc.errors import UsageError


def parse_rate(text: str) -> tuple[float, float]:
    """Rows a second and bytes a second, infinite without a limit. Raises ``UsageError``."""
    unlimited = float("inf")
    if text == "none":
        return unlimited, unlimited
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(rows|MB)/s", text)
    if match is None or not float(match[1]):
        raise UsageError(f"{text!r} is not a rate", 'write "5000 rows/s", "20 MB/s" or "none"')
    amount = float(match[1])
    return (amount, unlimited) if match[2] == "rows" else (unlimited, amount * 1_000_000)
