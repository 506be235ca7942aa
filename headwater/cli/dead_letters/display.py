"""How dead letters are shown: a list, the fields of one, and as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.cli.common.format import age, size
from headwater.cli.common.records import key_text, labelled, plain, with_value
from headwater.cli.dead_letters.entry import by_key
from headwater.cli.dead_letters.row_alerts import PREFIX
from jobs.without_mirrors.dead_letters.letter import BEHIND

if TYPE_CHECKING:
    from rich.table import Table

    from headwater.cli.dead_letters.entry import Entry

_OF_A_VIEW: Final = "the store, its mapping, the view's SQL, or the row in the source"


def described(one: Entry) -> dict[str, Any]:
    """All but the value: sizes in bytes, times in UTC. ``view`` is null of capture's."""
    return {
        "id": one.id,
        "view": one.view or None,
        "of": one.of,
        "key": one.key,
        "since": one.since.isoformat(timespec="milliseconds"),
        "cause": one.cause,
        **one.facts,
    }


def table(found: Sequence[Entry], every: bool = False) -> Table:
    """One line for each key of a view, or ``every`` event, and one for each record of capture."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("id", no_wrap=True)
    for title in ("view", "of", "key"):
        grid.add_column(title, overflow="fold")
    grid.add_column("age", no_wrap=True)
    grid.add_column("cause", overflow="fold")
    for of in ([one] for key in by_key(found) for one in key) if every else by_key(found):
        first = next((one for one in of if one.cause != BEHIND), of[0])
        key = None if first.key is None else first.key.encode()
        behind = f"; {len(of) - 1:,} more of its key" if len(of) > 1 else ""
        grid.add_row(
            first.id,
            first.view or "(capture)",
            "the view" if first.is_row else Text(plain(first.of)),
            Text(plain(key_text(key))),
            age(time.time() - of[0].since.timestamp()),
            Text(plain(first.cause) + behind),
        )
    return grid


def fields(one: Entry) -> Table:
    """What there is to say of one besides its value, a line each."""
    told = {**described(one), "view": one.view or "(capture)"}
    headers = told.pop("headers", {})
    if (held := told.pop("bytes", None)) is not None:
        told["size"] = f"{size(held)} ({held:,} bytes)"
    told["key"] = key_text(None if one.key is None else one.key.encode())
    if others := told.pop("also_of", []):
        told["also of"] = ", ".join(others)
    if one.view:
        where = "the receiver of the webhook" if one.view.startswith(PREFIX) else _OF_A_VIEW
        told["next"] = (
            f"correct the cause ({where}), then run: headwater dead-letters retry {one.view}"
        )
    told |= {f"header {name}": text for name, text in headers.items()}
    return labelled({label: "-" if text is None else str(text) for label, text in told.items()})


def document(one: Entry) -> str:
    """One JSON object, the value in it."""
    return with_value(described(one), one.value)
