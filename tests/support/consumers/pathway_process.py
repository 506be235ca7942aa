"""Pathway, which keeps tables of PostgreSQL by Debezium's events, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from cdc.errors import StackError
from jobs.spark.jars import cache_directory
from stack.guardian import Guardian
from tests.support.consumers.published import Published

_PROGRAM: Final = Path(__file__).with_name("pathway_program.py")
COLUMNS: Final = {
    "customers": (1, "id int, name str"),
    "orders": (1, "id int, customer_id int, total str, shipped bool"),
    "order_lines": (2, "order_id int, line int, sku str"),
    "kinds": (
        1,
        "id int, i2 int, i4 int, i8 int, r4 float, f8 float, n str, yes bool, t str, vc str,"
        " c str, u str, e str, j str, jb str, ip str, d int, tm int, ts int, ts3 int, tz str",
    ),
    "articles": (1, "id int, title str, body str"),
    "visits": (1, "id int, page str"),
}
"""For each table how many columns are its key, and those columns that are never NULL, which
Pathway cannot read, in the types of the events."""


@contextmanager
def pathway(
    published: Published, target: str, home: Path, guardian: Guardian
) -> Iterator[Callable[[], None]]:
    """Tables in ``target`` kept by Pathway while the body runs. Gives what raises
    ``StackError`` with the end of its log when it has ended."""
    python = cache_directory() / "pathway" / "bin" / "python"
    assert python.is_file(), f"{python} is missing: run make test, which makes its environment"
    place = conninfo_to_dict(target)
    given = {
        "bootstrap": published.bootstrap,
        "group": published.prefix,
        "postgres": {
            **{name: str(place[name]) for name in ("host", "port", "dbname", "user")},
            "password": "unused",
        },
        "tables": {
            published.topic(name): {
                "name": name,
                "key": key,
                "columns": dict(column.split(" ") for column in columns.split(", ")),
            }
            for name, (key, columns) in COLUMNS.items()
        },
    }
    log = home / "pathway.log"
    with log.open("w", encoding="utf-8") as stream:
        command = [str(python), "-P", str(_PROGRAM), json.dumps(given)]
        process = subprocess.Popen(command, stdout=stream, stderr=stream, cwd=home)
    guardian.end(process.pid)

    def check() -> None:
        if process.poll() is not None:
            raise StackError(f"Pathway ended: {log.read_text(encoding='utf-8')[-2_000:]}")

    try:
        yield check
    finally:
        process.kill()
        process.wait()
