"""How dead letters of views are shown: the parked keys, every event, one of them, and as JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cdc.events.parked import BEHIND
from headwater.cli.common.format import age, size
from headwater.cli.common.records import key_text, labelled, plain, with_value

if TYPE_CHECKING:
    from rich.table import Table

    from cdc.config import Config
    from cdc.events.parked import Letter, Letters
    from jobs.dead_letters.retry import Outcome


def described(view: str, letters: Letters) -> dict[str, Any]:
    """All but the values, by key: sizes in bytes, times in UTC."""
    return {
        "view": view,
        "keys": letters.parked,
        "events": len(letters.open),
        "parked": [
            {
                "of": of[0].topic,
                "key": None if of[0].key is None else of[0].key.decode(errors="replace"),
                "cause": _cause(of),
                "since": _utc(of[0].parked_ms).isoformat(timespec="milliseconds"),
                "first": _position(of[0]),
                "last": _position(of[-1]),
                "events": [_event(letter) for letter in of],
            }
            for of in _by_key(letters)
        ],
    }


def of_keys(found: Mapping[str, Letters]) -> Table:
    """One line a parked key: of a table's topic, or of the view itself."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    for title in ("view", "of", "key"):
        grid.add_column(title, overflow="fold")
    grid.add_column("events", justify="right", no_wrap=True)
    for title in ("first", "last"):
        grid.add_column(title, overflow="fold")
    grid.add_column("parked", no_wrap=True)
    grid.add_column("cause", overflow="fold")
    for view, letters in found.items():
        for of in _by_key(letters):
            grid.add_row(
                view,
                "the view" if of[0].is_row else of[0].topic,
                Text(plain(key_text(of[0].key))),
                f"{len(of):,}",
                _position(of[0]) or of[0].id,
                _position(of[-1]) or of[-1].id,
                f"{age(time.time() - of[0].parked_ms / 1000)} ago",
                Text(plain(_cause(of))),
            )
    return grid


def of_events(found: Mapping[str, Letters]) -> Table:
    """One line an event, those of a key together. ``show`` asks for the event's name."""
    from rich.table import Table
    from rich.text import Text

    grid = Table()
    for title in ("view", "event", "position", "key"):
        grid.add_column(title, overflow="fold")
    grid.add_column("size", justify="right", no_wrap=True)
    for title in ("time (UTC)", "cause"):
        grid.add_column(title, overflow="fold")
    for view, letters in found.items():
        for letter in (one for of in _by_key(letters) for one in of):
            grid.add_row(
                view,
                letter.id,
                _position(letter) or "-",
                Text(plain(key_text(letter.key))),
                size(letter.size),
                f"{_utc(letter.timestamp_ms):%Y-%m-%d %H:%M:%S}",
                Text(plain(letter.cause or BEHIND)),
            )
    return grid


def fields(view: str, letter: Letter) -> Table:
    """What there is to say of one event besides its value, a line each."""
    return labelled(
        {
            "view": view,
            "event": letter.id,
            "position": _position(letter) or "-",
            "key": key_text(letter.key),
            "time": f"{_utc(letter.timestamp_ms):%Y-%m-%d %H:%M:%S} UTC",
            "parked": f"{_utc(letter.parked_ms):%Y-%m-%d %H:%M:%S} UTC",
            "size": f"{size(letter.size)} ({letter.size:,} bytes)",
            "cause": letter.cause or BEHIND,
        }
    )


def document(view: str, letter: Letter) -> str:
    """One JSON object, the value in it."""
    key = None if letter.key is None else letter.key.decode(errors="replace")
    return with_value({"view": view, "key": key, **_event(letter)}, letter.value)


def outcome(view: str, verb: str, done: Outcome) -> list[str]:
    """What became of letters, in lines."""
    from jobs.dead_letters.retry import qualified

    keys = len({qualified(letter) for letter in done.settled})
    lines = [f"{view}: {len(done.settled):,} events of {keys:,} keys {verb}"]
    for key, cause in done.left.items():
        lines.append(f"{view}: {plain(key_text(key.encode()))} stays parked: {cause}")
    return lines


def way_back(config: Config, view: str) -> str:
    """The command that gives a view what discarded events held. A mirror of its tables has their
    rows as they were before, and so has whatever is made from it."""
    from verification.waiting import kept

    if kept(config, view).maintained:
        return f"headwater view rebuild {view}"
    return f"headwater verify {view} --repair"


def _by_key(letters: Letters) -> list[list[Letter]]:
    alone = [*letters.rows.values(), *letters.keyless]
    return [*letters.keys.values(), *([one] for one in alone)]


def _cause(of: Sequence[Letter]) -> str:
    return next((letter.cause for letter in of if letter.cause), BEHIND)


def _event(letter: Letter) -> dict[str, Any]:
    return {
        "event": letter.id,
        "position": _position(letter),
        "bytes": letter.size,
        "time": _utc(letter.timestamp_ms).isoformat(timespec="milliseconds"),
        "parked": _utc(letter.parked_ms).isoformat(timespec="milliseconds"),
        "cause": letter.cause or BEHIND,
    }


def _position(letter: Letter) -> str | None:
    return None if letter.position is None else letter.position.hex()


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
