"""How views and their generations are shown. Read from their state alone: no store is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdc.plural import plural

if TYPE_CHECKING:
    from rich.table import Table

    from bootstrap.process import RolledBack
    from cdc.config import Config
    from jobs.generations.generation_record import Generation

_STYLES: Final = {"live": "green", "retired": ""}


def described(config: Config, name: str) -> dict[str, Any]:
    """A JSON object: times in UTC, offsets by topic and partition."""
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from verification.view_facts import is_applied_now

    directory = view_directory(config.apply.state, config.source.name, name)
    found = read_generations(directory)
    live, building = found.live, found.building
    return {
        "view": name,
        "store": config.views[name].store,
        "stopped": stopped_by(config, name),
        "applied": is_applied_now(config, name),
        "live": live.number if live else None,
        "building": building.number if building else None,
        "switching": found.switching,
        "retired": [one.number for one in found.retired],
        "generations": [_generation(one, directory) for one in found.of.values()],
    } | _of_state(config, name)


def _of_state(config: Config, name: str) -> dict[str, Any]:
    """What the state database says of a view that it keeps, as far as it runs."""
    from headwater.cli.view.state_views import known_state, of_view
    from verification.view_facts import is_kept_by_state

    if not is_kept_by_state(config, name):
        return {}
    with known_state(config) as conn:
        return {} if conn is None else of_view(conn, config, name)


def stopped_by(config: Config, name: str) -> dict[str, str] | None:
    """The fault that ended a view's stream, None if somebody applies it or nothing ended it."""
    from jobs.generations.last_error import stopped
    from jobs.generations.view_state import view_directory

    note = stopped(view_directory(config.apply.state, config.source.name, name))
    if note is None:
        return None
    return {"at": note.at, "fault": note.fault, "hint": note.hint}


def _generation(one: Generation, directory: Path) -> dict[str, Any]:
    from cdc.lsn import format_lsn
    from jobs.generations.view_state import ViewState, state_directory

    _, parked = ViewState(state_directory(directory, one.number), "").letters()
    return {
        "generation": one.number,
        "phase": one.phase,
        "store": one.declared.store,
        "rows": one.rows,
        "dead_letters": one.dead_letters,
        "parked_keys": parked,
        "snapshot": one.snapshot or None,
        "lsn": format_lsn(min(one.points)) if one.points else None,
        "offsets": one.offsets,
        "begun_at": _time(one.created_s),
        "live_at": _time(one.live_s),
        "retired_at": _time(one.retired_s),
        "sql": one.declared.sql,
        "key": list(one.declared.key),
    }


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None


def overview(found: Sequence[dict[str, Any]]) -> Table:
    """One line a view."""
    from rich.table import Table

    modes = any("mode" in one for one in found)
    grid = Table("view", "store", "live", "building", "retired", *(["mode"] if modes else []))
    for one in found:
        phases = {item["generation"]: item["phase"] for item in one["generations"]}
        building = one["building"]
        grid.add_row(
            one["view"],
            one["store"],
            _live(one),
            f"{building}: {phases[building]}" if building else _unbuilt(one),
            ", ".join(map(str, one["retired"])) or "-",
            *([one.get("mode") or "-"] if modes else []),
        )
    return grid


def generations(found: dict[str, Any]) -> Table:
    """One line a generation of a view, the newest first."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("generation", "phase"):
        grid.add_column(title)
    grid.add_column("rows read", justify="right")
    grid.add_column("at LSN", no_wrap=True)
    for title in ("live since (UTC)", "retired (UTC)"):
        grid.add_column(title, no_wrap=True)
    for one in reversed(found["generations"]):
        grid.add_row(
            str(one["generation"]),
            Text(one["phase"] + _parked(one), _STYLES.get(one["phase"], "cyan")),
            f"{one['rows']:,}" + _missing(one["dead_letters"]),
            one["lsn"] or "-",
            _short(one["live_at"]),
            _short(one["retired_at"]),
        )
    return grid


def gone_back(view: str, done: RolledBack, now_s: float) -> str:
    """What a rollback has shown again, how old that is, and what becomes of it."""
    from headwater.cli.common.format import age

    number = f"generation {done.number} is live again"
    instead = f", instead of {done.instead_of}" if done.instead_of else ""
    left = f"{_short(_time(done.retired_s))} UTC ({age(now_s - done.retired_s)} ago)"
    then = f"no process applies it: `headwater apply {view}` brings it up to date"
    if done.applied:
        then = "the `headwater apply` that runs brings it up to date"
    return f"{view}: {number}{instead}, with its rows of {left}; {then}"


def utc(seconds: float) -> str:
    """A time since 1970 in minutes."""
    return _short(_time(seconds))


def _live(one: dict[str, Any]) -> str:
    """The live generation, and what it does not hold."""
    live = next((of for of in one["generations"] if of["generation"] == one["live"]), None)
    stopped = ", stopped" if one["stopped"] or one.get("error") else ""
    stopped = stopped or (", not applied" if one["applied"] is False else "")
    stopped = stopped if one.get("declared", True) else ", not declared"
    parked = _parked(one if "parked_keys" in one else live or {"parked_keys": 0})
    return f"-{stopped}" if live is None else f"{one['live']}{stopped}{parked}"


def _unbuilt(one: dict[str, Any]) -> str:
    return "refused" if one.get("build_error") else "-"


def _parked(generation: dict[str, Any]) -> str:
    parked = generation["parked_keys"]
    return f", {plural(parked, 'key')} parked" if parked else ""


def _missing(dead_letters: int) -> str:
    return f", {dead_letters:,} missing" if dead_letters else ""


def _short(time: str | None) -> str:
    return "-" if time is None else time.removesuffix("+00:00").replace("T", " ")[:16]
