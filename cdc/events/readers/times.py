"""Dates and times that are numbers, as the ISO texts of the default form.

Numbers count days, or units of a second, since 1970 by the proleptic Gregorian calendar, of every
year that PostgreSQL has.
"""

from __future__ import annotations

from typing import Any, Final

_DAY_S: Final = 86_400
_DIGITS: Final = 9
_TO_MARCH: Final = 719_468
"""From 1 March of the year 0 to 1970, in days."""
_ERA_DAYS: Final = 146_097
_ERA_YEARS: Final = 400
INFINITY, MINUS_INFINITY = "infinity", "-infinity"


def date_text(days: Any) -> str:
    """``"2024-02-29Z"``."""
    return f"{_civil(_whole(days))}Z"


def time_text(count: Any, unit: int) -> str:
    """``"12:34:56.5Z"``; ``unit`` is how many make a second. The day's end is ``24:00:00``."""
    seconds, fraction = divmod(_whole(count), unit)
    if not 0 <= seconds <= _DAY_S:
        raise ValueError("no time of day")
    return f"{_clock(seconds)}{_fraction(fraction, unit)}Z"


def timestamp_text(count: Any, unit: int) -> str:
    """``"2024-02-29T12:34:56.5Z"``."""
    seconds, fraction = divmod(_whole(count), unit)
    days, of_day = divmod(seconds, _DAY_S)
    return f"{_civil(days)}T{_clock(of_day)}{_fraction(fraction, unit)}Z"


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a {value.__class__.__name__} in place of a number")
    return value


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _fraction(count: int, unit: int) -> str:
    digits = f"{count * 10**_DIGITS // unit:0{_DIGITS}d}".rstrip("0")
    return f".{digits}" if digits else ""


def _civil(days: int) -> str:
    """Years begin in March here, so that a leap day is the last one."""
    era, of_era = divmod(days + _TO_MARCH, _ERA_DAYS)
    of_years = of_era - of_era // 1460 + of_era // 36_524 - of_era // (_ERA_DAYS - 1)
    year = of_years // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return f"{_year(year + era * _ERA_YEARS + (month <= 2))}-{month:02d}-{day:02d}"


def _year(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"+{year}" if year > 0 else f"-{-year:04d}"
