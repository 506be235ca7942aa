"""What an operator may have the server do, each as the command of the command line that does it.
Pure.

The command decides and refuses; nothing of it is done a second time here. Texts that somebody has
sent stand behind ``--`` or ``=``, so that none is taken for an option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Any
"""What a command prints with ``--json``."""


@dataclass(frozen=True, slots=True)
class Command:
    """``of`` is what no other command is at meanwhile: a view, or a snapshot. ``recorded`` is what
    the audit log has of its arguments: no keys or conditions, which are values of rows; where it
    has some, ``quotes`` is true, and what is said of them is not recorded either. ``shown`` makes
    of the command's document what a job shows. ``answers``: an exit code of 1 is an answer."""

    action: str
    of: str
    arguments: tuple[str, ...]
    recorded: Mapping[str, Any] = field(default_factory=dict)
    quotes: bool = False
    answers: bool = False
    shown: Callable[[Document], dict[str, Any]] = lambda found: {"document": found}


def rebuild(
    view: str,
    *,
    hold: bool = False,
    new_history: bool = False,
    refill: bool = False,
    despite_forecast: bool = False,
) -> Command:
    flags = {
        "hold": hold,
        "new-history": new_history,
        "refill": refill,
        "despite-forecast": despite_forecast,
    }
    arguments = ("view", "rebuild", "--json", *_given(flags), "--", view)
    return Command("view rebuild", view, arguments, _set(flags), shown=_first)


def rollback(view: str, *, to: int | None = None) -> Command:
    chosen = () if to is None else (f"--to={to}",)
    recorded = {} if to is None else {"to": to}
    return Command("view rollback", view, ("view", "rollback", *chosen, "--", view), recorded)


def replay(view: str, *, place: str, archive: str = "") -> Command:
    chosen = (f"--from={place}", *([f"--archive={archive}"] if archive else []))
    recorded = {"from": place, **({"archive": archive} if archive else {})}
    return Command(
        "replay", view, ("replay", "--json", *chosen, "--", view), recorded, shown=_as_it_is
    )


def verify(view: str, *, repair: bool = False, timeout_s: float = 60.0) -> Command:
    """Counts alone: rows that differ are for who is at the command line."""
    flags = {"repair": repair}
    arguments = ("verify", "--json", "--limit=0", f"--timeout={timeout_s:g}", *_given(flags))
    return Command(
        "verify", view, (*arguments, "--", view), _set(flags), answers=True, shown=_counts
    )


def diff(view: str, *, timeout_s: float = 300.0) -> Command:
    """Counts alone, too."""
    arguments = ("view", "diff", "--json", "--keys=0", f"--timeout={timeout_s:g}", "--", view)
    return Command("view diff", view, arguments, answers=True, shown=_counts)


def start_snapshot(
    tables: Sequence[str],
    views: Sequence[str],
    *,
    where: str = "",
    key_range: str = "",
    workers: int | None = None,
    rate: str = "",
    despite_forecast: bool = False,
) -> Command:
    texts = {
        "where": where,
        "key-range": key_range,
        "workers": "" if workers is None else str(workers),
        "rate": rate,
    }
    given = [f"--{name}={text}" for name, text in texts.items() if text]
    flags = {"despite-forecast": despite_forecast}
    named = [f"--view={view}" for view in views]
    arguments = ("snapshot", "start", "--json", *given, *named, *_given(flags), "--", *tables)
    recorded = {"tables": list(tables), "views": list(views), **_set(flags)}
    recorded |= {name: texts[name] for name in ("workers", "rate") if texts[name]}
    recorded |= {name: True for name in ("where", "key-range") if texts[name]}
    return Command(
        "snapshot start", "", arguments, recorded, bool(where or key_range), shown=_snapshot
    )


def resume_snapshot(number: int, *, despite_forecast: bool = False) -> Command:
    flags = {"despite-forecast": despite_forecast}
    arguments = ("snapshot", "resume", "--json", *_given(flags), str(number))
    return Command("snapshot resume", str(number), arguments, _set(flags), shown=_snapshot)


def pause_snapshot(number: int) -> Command:
    return Command("snapshot pause", str(number), ("snapshot", "pause", str(number)))


def cancel_snapshot(number: int) -> Command:
    return Command("snapshot cancel", str(number), ("snapshot", "cancel", str(number)))


def retry_dead_letters(view: str, keys: Sequence[str] | None) -> Command:
    """Those of some keys, as ``headwater dead-letters list`` names them; None: all."""
    chosen = [f"--key={key}" for key in keys or ()]
    arguments = ("dead-letters", "retry", "--json", *chosen, "--", view)
    recorded = {"keys": "all" if keys is None else len(keys)}
    return Command(
        "dead-letters retry", view, arguments, recorded, bool(keys), answers=True, shown=_settled
    )


def discard_dead_letters(view: str, keys: Sequence[str] | None, reason: str) -> Command:
    chosen = ["--all", "--yes"] if keys is None else [f"--key={key}" for key in keys]
    arguments = ("dead-letters", "discard", "--json", *chosen, "--", view)
    recorded = {"keys": "all" if keys is None else len(keys), "reason": reason}
    return Command(
        "dead-letters discard", view, arguments, recorded, bool(keys), answers=True, shown=_settled
    )


def _given(flags: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(f"--{name}" for name, wanted in flags.items() if wanted)


def _set(flags: Mapping[str, bool]) -> dict[str, Any]:
    return {name: True for name, wanted in flags.items() if wanted}


def _as_it_is(found: Document) -> dict[str, Any]:
    return dict(found)


def _first(found: Document) -> dict[str, Any]:
    """Of a list of one."""
    return dict(found[0]) if found else {}


def _counts(found: Document) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in ("differences", "keys")}


def _snapshot(found: Document) -> dict[str, Any]:
    """Without its condition."""
    return {name: value for name, value in found.items() if name != "options"}


def _settled(found: Document) -> dict[str, Any]:
    """Keys that are left are counted."""
    return {**found, "left": len(found["left"])}
