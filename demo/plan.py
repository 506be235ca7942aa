"""One day at the airports, as the transactions an airline's system would commit. Pure.

Each flight of the day is announced, delayed, leaves and lands, or is cancelled and deleted. The
order is that of the day's own clock; estimates and gates come from a seed, so a plan is the same
on every run. Between them stand the moments the demo is about: a primary key changes, one
transaction touches 50,000 rows, a column is added, one row changes that thousands of joined ones
show, and (made by the story) processes are killed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from demo.data import LIVE_DATE, Flight

BULK_ROWS = 50_000
RENUMBERED = 1_000_000
_MIDNIGHT = datetime.fromisoformat(f"{LIVE_DATE}T05:00:00").replace(tzinfo=UTC)
_LATE_MIN = 15
_MOMENTS = {"key change": 0.25, "bulk": 0.35, "alter": 0.50, "rename": 0.70}
"""Where in the day the special transactions stand, as a fraction of all transactions."""

Values = tuple[object, ...]


class Transaction(NamedTuple):
    """What is committed at once: ``statements`` are SQL with their parameters."""

    kind: str
    statements: tuple[tuple[str, Values], ...]


INSERT = (
    f"insert into public.flights ({', '.join(Flight._fields)})"
    f" values ({', '.join(['%s'] * len(Flight._fields))})"
)
DELAY = "update public.flights set dep_delay = %s where id = %s"
DEPART = "update public.flights set dep_time = %s, dep_delay = %s where id = %s"
DEPART_FROM_GATE = (
    "update public.flights set dep_time = %s, dep_delay = %s, gate = %s where id = %s"
)
LAND = "update public.flights set arr_time = %s, arr_delay = %s, air_time = %s where id = %s"
CANCEL = "delete from public.flights where id = %s"
AIRCRAFT = (
    "update public.planes set status = %s, airport = %s, flight_id = %s, seen_at = %s"
    " where tailnum = %s"
)
AIRCRAFT_FLIGHT = "update public.planes set flight_id = %s where flight_id = %s"
KEY_CHANGE = "update public.flights set id = %s where id = %s"
ALTER = "alter table public.flights add column gate text"
RENAME = "update public.airlines set name = %s where carrier = %s"
RENAMED = ("Southwest Airlines Co.", "FL")
"""AirTran, with 3,260 flights of the year: a year later they flew as Southwest's."""
BULK = (
    "update public.flights set dep_delay = dep_delay + case origin when 'JFK' then 6 else -6 end"
    " where id in (select id from public.flights"
    " where dep_delay is not null and flight_date <> %s order by id limit %s)"
)


def plan(live: Sequence[Flight], seed: int, bulk_rows: int = BULK_ROWS) -> list[Transaction]:
    """The day's transactions in the order they are committed. Same input, same plan.

    Raises ``ValueError`` for a day of so few flights that none lands in its first quarter.
    """
    chance = random.Random(seed)
    moments = [moment for flight in live for moment in _flight(flight, chance)]
    ordered = [transaction for _, transaction in sorted(moments, key=lambda moment: moment[0])]
    return _with_moments(ordered, chance, bulk_rows)


def _flight(flight: Flight, chance: random.Random) -> Iterator[tuple[int, Transaction]]:
    """``(minute of the day, transaction)`` for everything that happens to one flight."""
    scheduled = _minute(flight.sched_dep_time)
    announced = flight._replace(
        dep_time=None, dep_delay=None, arr_time=None, arr_delay=None, air_time=None
    )
    yield scheduled - 60, _one("insert", INSERT, announced)
    if flight.dep_delay is None:
        yield scheduled, _one("cancel", CANCEL, (flight.id,))
        return
    delay = int(flight.dep_delay)
    for minute, estimate in _estimates(delay, chance):
        yield scheduled + minute, _one("delay", DELAY, (estimate, flight.id))
    left = scheduled + delay
    yield left, _departure(flight, left)
    if flight.air_time is not None:
        yield left + int(flight.air_time), _landing(flight, left + int(flight.air_time))


def _estimates(delay: int, chance: random.Random) -> Iterator[tuple[int, int]]:
    """Delays announced before departure: they grow, and one in ten flights is on time after all."""
    if delay >= _LATE_MIN:
        yield -20, delay // 2
        yield 0, max(1, delay + chance.randint(-10, 10))
    elif delay <= 0 and chance.random() < 0.1:
        yield -50, chance.randint(5, 30)


def _departure(flight: Flight, minute: int) -> Transaction:
    statement = (DEPART, (flight.dep_time, flight.dep_delay, flight.id))
    return Transaction("departure", (statement, _aircraft(flight, "in the air", None, minute)))


def _landing(flight: Flight, minute: int) -> Transaction:
    statement = (LAND, (flight.arr_time, flight.arr_delay, flight.air_time, flight.id))
    return Transaction("landing", (statement, _aircraft(flight, "landed", flight.dest, minute)))


def _aircraft(flight: Flight, status: str, airport: str | None, minute: int) -> tuple[str, Values]:
    seen_at = _MIDNIGHT + timedelta(minutes=minute)
    return AIRCRAFT, (status, airport, flight.id, seen_at, flight.tailnum)


def _with_moments(
    ordered: list[Transaction], chance: random.Random, bulk: int
) -> list[Transaction]:
    """Put the special transactions in their places; from the ALTER on, departures name a gate."""
    renumber, correct, alter, rename = (round(share * len(ordered)) for share in _MOMENTS.values())
    landed = next((t for t in reversed(ordered[:renumber]) if t.kind == "landing"), None)
    if landed is None:
        raise ValueError("the day is too short: no flight has landed before a quarter of it")
    old = str(landed.statements[0][1][-1])
    new = str(int(old) + RENUMBERED)
    key_change = ((KEY_CHANGE, (new, old)), (AIRCRAFT_FLIGHT, (new, old)))
    gated = [_at_gate(transaction, chance) for transaction in ordered[alter:]]
    return [
        *ordered[:renumber],
        Transaction("key change", key_change),
        *ordered[renumber:correct],
        _one("bulk", BULK, (LIVE_DATE, bulk)),
        *ordered[correct:alter],
        _one("alter", ALTER, ()),
        *gated[: rename - alter],
        _one("rename", RENAME, RENAMED),
        *gated[rename - alter :],
    ]


def _at_gate(transaction: Transaction, chance: random.Random) -> Transaction:
    if transaction.kind != "departure":
        return transaction
    (_, (dep_time, dep_delay, flight)), *rest = transaction.statements
    gate = f"{chance.choice('ABCD')}{chance.randint(1, 40)}"
    return Transaction(
        "departure", ((DEPART_FROM_GATE, (dep_time, dep_delay, gate, flight)), *rest)
    )


def _one(kind: str, sql: str, values: Values) -> Transaction:
    return Transaction(kind, ((sql, values),))


def _minute(time: str) -> int:
    hour, minute = time.split(":")
    return int(hour) * 60 + int(minute)
