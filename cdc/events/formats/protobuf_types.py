"""Messages that others have defined, which stand for one value of an event's JSON. Pure."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cdc.events.formats.protobuf_messages import DATE, DECIMAL, TIME, TIMESTAMP, Field, Message

_MS, _MS_NANOS = 1000, 1_000_000
_MARCH: Final = 719_468
"""From 1 March of the year 0 to 1970, in days."""
_ERA_DAYS, _ERA_YEARS = 146_097, 400


class KnownType(NamedTuple):
    """``fields`` gives the values of a message's fields, of a column with these options; ``value``
    is the way back."""

    message: Message
    fields: Callable[[Any, dict[str, str]], dict[str, Any]]
    value: Callable[[dict[str, Any]], Any]


def _message(name: str, **types: str) -> Message:
    fields = enumerate(types.items(), 1)
    return Message(name, tuple(Field(number, one, one, of) for number, (one, of) in fields))


def _decimal(value: str, options: dict[str, str]) -> dict[str, Any]:
    """As Confluent's ``DecimalUtils``: with the number of digits that the value has."""
    number = int.from_bytes(a2b_base64(value), "big", signed=True)
    digits = len(str(abs(number)))
    return {"value": value, "precision": digits, "scale": int(options.get("scale", 0))}


def _date(days: int, _: dict[str, str]) -> dict[str, Any]:
    """By the proleptic Gregorian calendar. Years begin in March here, so that a leap day is the
    last one."""
    era, of_era = divmod(days + _MARCH, _ERA_DAYS)
    of_years = of_era - of_era // 1460 + of_era // 36_524 - of_era // (_ERA_DAYS - 1)
    year = of_years // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return {"year": year + era * _ERA_YEARS + (month <= 2), "month": month, "day": day}


def _days(fields: dict[str, Any]) -> int:
    year, month, day = fields["year"], fields["month"], fields["day"]
    era, of_era = divmod(year - (month <= 2), _ERA_YEARS)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return int(era * _ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _MARCH)


def _time(ms: int, _: dict[str, str]) -> dict[str, Any]:
    seconds, of_second = divmod(ms, _MS)
    return {
        "hours": seconds // 3600,
        "minutes": seconds // 60 % 60,
        "seconds": seconds % 60,
        "nanos": of_second * _MS_NANOS,
    }


def _time_ms(fields: dict[str, Any]) -> int:
    seconds = (fields["hours"] * 60 + fields["minutes"]) * 60 + fields["seconds"]
    return int(seconds * _MS + fields["nanos"] // _MS_NANOS)


def _timestamp(ms: int, _: dict[str, str]) -> dict[str, Any]:
    seconds, of_second = divmod(ms, _MS)
    return {"seconds": seconds, "nanos": of_second * _MS_NANOS}


def _timestamp_ms(fields: dict[str, Any]) -> int:
    return int(fields["seconds"] * _MS + fields["nanos"] // _MS_NANOS)


TYPES: Final[dict[str, KnownType]] = {
    DECIMAL: KnownType(
        _message("Decimal", value="bytes", precision="uint32", scale="int32"),
        _decimal,
        lambda fields: fields["value"],
    ),
    DATE: KnownType(_message("Date", year="int32", month="int32", day="int32"), _date, _days),
    TIME: KnownType(
        _message("TimeOfDay", hours="int32", minutes="int32", seconds="int32", nanos="int32"),
        _time,
        _time_ms,
    ),
    TIMESTAMP: KnownType(
        _message("Timestamp", seconds="int64", nanos="int32"), _timestamp, _timestamp_ms
    ),
}
