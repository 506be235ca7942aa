"""Records of Kafka for people and machines: dead letters of capture and of views alike."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.table import Table

_LONGEST: Final = 200
"""Characters of a text that a terminal shows whole; of a longer one the first ``_SHOWN``."""
_SHOWN: Final = 80


def labelled(told: Mapping[str, str]) -> Table:
    """A line each, the label first."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in told.items():
        grid.add_row(Text(plain(label)), Text(plain(text)))
    return grid


def show(fields: Table, value: bytes) -> None:
    """A record: on a terminal its value laid out; elsewhere the value on stdout, byte for byte, and
    what it is on stderr."""
    from headwater.cli.common.output import err, out

    if not sys.stdout.isatty():
        err().print(fields)
        sys.stdout.buffer.write(value)
        return
    console = out()
    console.print(fields)
    text, cut = pretty(value)
    console.print()
    console.print(text, markup=False, soft_wrap=True)
    if cut:
        err().print("long texts are cut: > FILE writes the value whole, --json too", style="dim")


def with_value(told: Mapping[str, object], value: bytes) -> str:
    """One JSON object. ``value`` stands in it as it was written, if it is JSON; else as a text,
    or, when it is no UTF-8, in base64: ``encoding`` says which."""
    encoding, text = embedded(value)
    whole = json.dumps({**told, "encoding": encoding}, indent=2, ensure_ascii=False)
    return f'{whole[:-2]},\n  "value": {text}\n}}\n'


def pretty(value: bytes) -> tuple[str, bool]:
    """The value for a terminal, and whether some of its texts were cut."""
    text = value.decode(errors="replace")
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        shown = plain(_cut(text), "\n")
        return shown, len(text) > _LONGEST
    short = _shortened(event)
    return json.dumps(short, indent=2, ensure_ascii=False), short != event


def embedded(value: bytes) -> tuple[str, str]:
    """How a value stands in a JSON document, and the text: as it is, as a string, in base64."""
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


def key_text(key: bytes | None) -> str:
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


def plain(text: str, but: str = "") -> str:
    """Nothing that a terminal would obey."""
    return "".join(
        c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text
    )
