"""How dead letters of capture are shown: a list, the fields of one, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headwater.cli.common.format import size
from headwater.cli.common.records import key_text, labelled, plain, with_value

if TYPE_CHECKING:
    from rich.table import Table

    from cdc.events.dead_letters import DeadLetter


def described(letter: DeadLetter, source: str) -> dict[str, object]:
    """All but the value: sizes in bytes, the time in UTC."""
    return {
        "position": letter.position.hex(),
        "table": _table(letter, source),
        "topic": letter.topic,
        "key": None if letter.key is None else letter.key.decode(errors="replace"),
        "bytes": len(letter.value),
        "missing": letter.missing,
        "cause": letter.cause,
        "time": _time(letter).isoformat(timespec="milliseconds"),
    }


def overview(letters: Iterable[DeadLetter], source: str) -> Table:
    """One line a record. The position is what ``show`` asks for."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    grid.add_column("position", no_wrap=True)
    for title in ("table", "key"):
        grid.add_column(title, overflow="fold")
    grid.add_column("size", justify="right", no_wrap=True)
    grid.add_column("time (UTC)", overflow="fold")
    grid.add_column("cause", overflow="fold")
    for letter in letters:
        cause = Text(plain(letter.cause))
        if letter.missing:
            cause.append(f"; {_pieces(letter.missing)} missing", "red")
        grid.add_row(
            letter.position.hex(),
            Text(plain(_table(letter, source))),
            Text(plain(key_text(letter.key))),
            size(len(letter.value)),
            f"{_time(letter):%Y-%m-%d %H:%M:%S}",
            cause,
        )
    return grid


def fields(letter: DeadLetter, source: str) -> Table:
    """What there is to say of one record besides its value, a line each."""
    told = {
        "position": letter.position.hex(),
        "table": _table(letter, source),
        "topic": letter.topic,
        "key": key_text(letter.key),
        "time": f"{_time(letter):%Y-%m-%d %H:%M:%S} UTC",
        "size": f"{size(len(letter.value))} ({len(letter.value):,} bytes)",
        "cause": letter.cause,
        **{f"header {name}": text.decode(errors="replace") for name, text in letter.headers},
    }
    return labelled(told)


def document(letter: DeadLetter, source: str) -> str:
    """One JSON object, the value in it."""
    headers = {name: text.decode(errors="replace") for name, text in letter.headers}
    return with_value({**described(letter, source), "headers": headers}, letter.value)


def _table(letter: DeadLetter, source: str) -> str:
    """The topic without the source: a table's schema and name, or ``outbox.<topic>``."""
    return letter.topic.removeprefix(f"{source}.")


def _time(letter: DeadLetter) -> datetime:
    return datetime.fromtimestamp(letter.timestamp_ms / 1000, UTC)


def _pieces(count: int) -> str:
    return f"{count} piece{'s' if count > 1 else ''}"
