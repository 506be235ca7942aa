"""How dead letters are shown: a list, the fields of one, its event on a terminal, and as JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cdc.cli.lag import size

if TYPE_CHECKING:
    from rich.table import Table

    from cdc.events.dead_letters import DeadLetter

_LONGEST: Final = 200
"""Characters of a text that a terminal shows whole; of a longer one the first ``_SHOWN``."""
_SHOWN: Final = 80


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
        cause = Text(_plain(letter.cause))
        if letter.missing:
            cause.append(f"; {_pieces(letter.missing)} missing", "red")
        grid.add_row(
            letter.position.hex(),
            Text(_plain(_table(letter, source))),
            Text(_plain(_key(letter.key))),
            size(len(letter.value)),
            f"{_time(letter):%Y-%m-%d %H:%M:%S}",
            cause,
        )
    return grid


def fields(letter: DeadLetter, source: str) -> Table:
    """What there is to say of one record besides its value, a line each."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    told = {
        "position": letter.position.hex(),
        "table": _table(letter, source),
        "topic": letter.topic,
        "key": _key(letter.key),
        "time": f"{_time(letter):%Y-%m-%d %H:%M:%S} UTC",
        "size": f"{size(len(letter.value))} ({len(letter.value):,} bytes)",
        "cause": letter.cause,
        **{f"header {name}": text.decode(errors="replace") for name, text in letter.headers},
    }
    for label, text in told.items():
        grid.add_row(Text(_plain(label)), Text(_plain(text)))
    return grid


def pretty(value: bytes) -> tuple[str, bool]:
    """The value for a terminal, and whether some of its texts were cut."""
    text = value.decode(errors="replace")
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        shown = _plain(_cut(text), "\n")
        return shown, len(text) > _LONGEST
    short = _shortened(event)
    return json.dumps(short, indent=2, ensure_ascii=False), short != event


def document(letter: DeadLetter, source: str) -> str:
    """One JSON object. ``value`` stands in it as it was written, if it is JSON; else as a text,
    or, when it is no UTF-8, in base64: ``encoding`` says which."""
    encoding, value = _embedded(letter.value)
    headers = {name: text.decode(errors="replace") for name, text in letter.headers}
    told = {**described(letter, source), "headers": headers, "encoding": encoding}
    return f'{json.dumps(told, indent=2, ensure_ascii=False)[:-2]},\n  "value": {value}\n}}\n'


def _embedded(value: bytes) -> tuple[str, str]:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "base64", json.dumps(b64encode(value).decode())
    try:  # only looked at: numbers stay the digits they are
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return "text", json.dumps(text, ensure_ascii=False)
    return "json", text.strip()


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _shortened(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _shortened(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_shortened(value) for value in node]
    return _cut(node) if isinstance(node, str) else node


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _table(letter: DeadLetter, source: str) -> str:
    """The topic without the source: a table's schema and name, or ``outbox.<topic>``."""
    return letter.topic.removeprefix(f"{source}.")


def _key(key: bytes | None) -> str:
    """``id=1, at=2`` of an event's key; any other as it is."""
    if key is None:
        return "-"
    text = key.decode(errors="replace")
    try:
        columns = json.loads(text)
    except (ValueError, RecursionError):
        columns = None
    if isinstance(columns, dict):
        values = {name: v if isinstance(v, str) else json.dumps(v) for name, v in columns.items()}
        text = ", ".join(f"{name}={value}" for name, value in values.items())
    return _cut(text)


def _time(letter: DeadLetter) -> datetime:
    return datetime.fromtimestamp(letter.timestamp_ms / 1000, UTC)


def _pieces(count: int) -> str:
    return f"{count} piece{'s' if count > 1 else ''}"


def _plain(text: str, but: str = "") -> str:
    """Nothing that a terminal would obey."""
    return "".join(
        c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text
    )
