"""What an alert over a view does with what its tables say."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cdc.errors import LogError, RetryableError
from jobs.state.feeds.alert_places import AlertLog, count_from, go_over, with_old_rows
from jobs.state.feeds.feed_reader import LoggedChange

LOG = AlertLog(7, "sales", 1, ("id",), (), "e1", True, 3)


class Tables:
    """Rows by words of the statement that asks for them."""

    def __init__(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        self._rows = rows
        self.found: list[tuple[Any, ...]] = []

    def execute(self, query: bytes, *_: object, **__: object) -> Tables:
        text = query.decode()
        self.found = next((rows for words, rows in self._rows.items() if words in text), [])
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return self.found[0] if self.found else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.found

    def transaction(self) -> nullcontext[None]:
        return nullcontext()


def change(number: int, op: str = "u") -> LoggedChange:
    return LoggedChange(number, "{}", "{}", op, 1, 1, datetime.now(UTC))


def test_where_readers_see_a_generation_without_a_log_the_alert_says_so() -> None:
    """And does not wait for a change in the log that they have left."""
    tables = cast(Any, Tables({}))
    with pytest.raises(RetryableError, match="without a change stream") as error:
        go_over(tables, "big", "sales")
    assert "headwater view rebuild sales" in error.value.hint
    shown = cast(Any, Tables({"select old_rows": [(True,)]}))
    assert not go_over(shown, "big", "sales"), "they see what the alert reads"


def test_changes_of_generations_that_come_next_are_behind_too() -> None:
    """While a message of the log before waits, they do as well."""
    tables = Tables(
        {
            "select f.view_id": [(8, 1), (9, 4)],
            "from feed_log.v7": [(2, 50.0)],
            "from feed_log.v8": [(10, 40.0)],
            "from feed_log.v9": [(0, None)],
        }
    )
    assert count_from(cast(Any, tables), "big", LOG, 3) == 12


def test_an_update_without_the_row_before_is_no_change_to_decide() -> None:
    """Apply has logged it while it did not know of the alert."""
    whole = [(change(3, "c"), None), (change(4), '{"n":1}'), (change(5, "d"), None)]
    assert with_old_rows("sales", whole) == whole
    assert with_old_rows("sales", [*whole, (change(6), None), (change(7), "{}")]) == whole
    with pytest.raises(LogError, match="without the row before it") as error:
        with_old_rows("sales", [(change(6), None), *whole])
    assert "ive the alert another name" in error.value.hint
