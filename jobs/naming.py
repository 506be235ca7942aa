"""Which names a generation of a view has for its tables' columns: those it began with.

They are remembered with it (``ViewState.namings``), and every version of a table is seen under
them, so that RENAME COLUMN changes nothing but how events are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from cdc.errors import ViewError
from jobs.generations import read_generations
from jobs.mirrors.tables import remembered
from jobs.offsets import is_started
from jobs.state import ViewState, generation_id, state_directory
from jobs.versions import Versions
from views.definition import ViewDefinition
from views.maintained import resolve_view
from views.naming import Naming, begun, grown, seen
from views.tables import TableVersion


def live_state(directory: Path) -> ViewState:
    """Of the generation that people read, of the view whose state is in ``directory``: to be looked
    at."""
    of_live = state_directory(directory, read_generations(directory).live_number)
    return ViewState(of_live, generation_id(of_live) or "")


def seen_by(
    state: ViewState, definition: ViewDefinition, versions: Mapping[str, Versions]
) -> dict[str, Versions]:
    """All versions of its tables, by ``schema.table``, as a generation sees them."""
    return under(namings_of(state, definition, versions), versions)


def under(namings: Mapping[str, Naming], versions: Mapping[str, Versions]) -> dict[str, Versions]:
    """Versions under a generation's names."""
    return {
        table: {id_: seen(version, namings[table]) for id_, version in of_table.items()}
        for table, of_table in versions.items()
    }


def namings_of(
    state: ViewState, definition: ViewDefinition, versions: Mapping[str, Versions]
) -> dict[str, Naming]:
    """What a generation calls columns, with those that came since it was last asked."""
    held = state.namings()
    if any(table not in held for table in versions):
        bases = _bases(state, definition, versions)
        held = {table: begun(base) for table, base in bases.items()} | held
    return {
        table: grown(held[table], list(of_table.values())) for table, of_table in versions.items()
    }


def _bases(
    state: ViewState, definition: ViewDefinition, versions: Mapping[str, Versions]
) -> dict[str, TableVersion]:
    """What the SQL is resolved against where a generation begins: the newest versions.

    A generation of an older Headwater's has begun. What its mirrors were last opened with is
    known; a view without mirrors takes the newest version that its SQL can be run over.
    """
    newest = {table: list(of_table.values())[-1] for table, of_table in versions.items()}
    if not is_started(state.checkpoint) and state.beginning() is None:
        return newest
    if definition.maintained:
        return newest | remembered(state.mirrors, versions)
    for base in _fitting(definition, versions[definition.table_name]):
        return {base.name: base}
    return newest


def _fitting(definition: ViewDefinition, versions: Versions) -> Iterator[TableVersion]:
    """The versions that a view of one table can be run over, the newest first."""
    for version in reversed(versions.values()):
        with suppress(ViewError):
            resolve_view(definition, {version.name: version})
            yield version
