"""Checks of the declared views against the tables as they are now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from cdc.config import Config, View
from cdc.errors import HeadwaterError, UsageError, ViewError
from cdc.kafka.event_reader import form_of
from cdc.source.postgres import Connection, plan_fault
from cdc.source.types import load_types
from headwater.check.finding import Finding
from headwater.check.source import Source
from headwater.check.state_mirrors import StateMirrors, state_mirrors
from headwater.check.unpublished_columns import explained
from headwater.check.view_columns import check_columns
from views.event_form import refuse_shared, refuse_unread

if TYPE_CHECKING:
    from cdc.config import Store
    from views.maintain import MirrorTable
    from views.parse.definition import ViewDefinition
    from views.spark import view as maintained
    from views.table_versions import TableColumn, TableVersion


def views(source: Source) -> Iterator[Finding]:
    """One finding for each view of ``[views]``: its SQL, its tables, its columns and its key."""
    config = source.config
    if not config.views or not source.tables:  # what is wrong with the tables has been said
        return
    try:
        refuse_unread(config.form)
    except HeadwaterError as error:
        yield Finding("error", "views", error.message, error.hint)
        return
    with state_mirrors(config, source.conn) as mirrors:
        yield from _views(source, _Tables(source, mirrors))


def _views(source: Source, tables: _Tables) -> Iterator[Finding]:
    from views.parse.definition import parse_view
    from views.spark.lost_columns import refuse_lost_columns
    from views.spark.view import resolve_view

    config = source.config
    for name, view in config.views.items():
        check = f"view {name}"
        try:
            refuse_shared(config.source.own_topic, [(name, view.sql)])
        except UsageError as fault:
            yield Finding("error", check, fault.message, fault.hint)
            continue
        if config.apply.engine == "database" and not _direct(config, view):
            yield _any_select(source, tables, name, view)
            continue
        if view.change_stream and config.apply.engine == "database":
            hint = "remove mirror = false from [tables] for its table, or change_stream"
            yield Finding("error", check, "change_stream needs the mirror of its table", hint)
        try:
            definition = parse_view(name, view.store, view.key, view.sql, view.history)
            seen = _as_followed(config, definition, tables.of(definition))
            resolved = resolve_view(definition, seen)
            refuse_lost_columns(form_of(config), resolved)
            _check_columns(resolved, view, config.store(view.store))
            _check_in_source(source.conn, resolved, config.source.publication_name)
        except HeadwaterError as fault:
            error = tables.explained(view, fault)
            yield Finding("error", check, error.message, error.hint)
        else:
            yield Finding("ok", check, f"in {view.store}: {resolved.describe()}")


def applied(config: Config) -> Iterator[Finding]:
    """Views that have stopped, or that nobody applies: where none was ever applied there are none
    yet. And views that stand in a store, and are not declared."""
    from cdc.kafka.broker import Broker
    from jobs.state.views.undeclared_views import undeclared_views
    from verification.view_facts import view_facts
    from verification.view_faults import together, view_fault

    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        facts, faults = view_facts(config, broker), []
        for name in config.views:
            with suppress(HeadwaterError):  # of its SQL or the state database: told by their checks
                faults.append(view_fault(facts, name))
    for fault in together(one for one in faults if one is not None):
        which = "views" if "," in fault.view else f"view {fault.view}"
        yield Finding("error", which, fault.message, fault.hint)
    for name, view in undeclared_views(config).items():
        message = f"its rows are in {view.store}, but it is no longer declared"
        hint = f"run `headwater view drop {name}`, or declare it again"
        yield Finding("warning", f"view {name}", message, hint)


def _direct(config: Config, view: View) -> bool:
    """Whether it is kept without mirrors."""
    from views.parse.table_references import tables_read

    try:
        return not all(config.is_mirrored(one.name) for one in tables_read("", view.sql))
    except ViewError:  # the planner tells of it
        return False


def _any_select(source: Source, tables: _Tables, name: str, view: View) -> Finding:
    """Of a view that is kept over mirrors."""
    from headwater.check.any_select import described
    from jobs.state.views.view_status import known_names

    try:
        store = source.config.store(view.store)
        known = known_names(source.config, name, view)
        said, warning, hint = described(
            source.conn, name, view, store, tables.oids, tables.mirror, tables.planned,
            tables.relation, known, source.config.apply.whole_rows,
        )  # fmt: skip
    except HeadwaterError as fault:
        error = tables.explained(view, fault)
        return Finding("error", f"view {name}", error.message, error.hint)
    if warning:
        return Finding("warning", f"view {name}", f"{warning}; {said}", hint)
    return Finding("ok", f"view {name}", said)


def _as_followed(
    config: Config, definition: ViewDefinition, tables: Mapping[str, TableVersion]
) -> Mapping[str, TableVersion]:
    """Tables as the live generation sees them, if it is of this declaration: columns that were
    renamed have the names there that its SQL has."""
    from cdc.kafka.broker import Broker
    from jobs.generations.declaration import declared, differing
    from jobs.generations.generation_record import read_generations
    from jobs.generations.view_state import view_directory
    from jobs.without_mirrors.column_names import Names, live_state, namings_of
    from views.spark.generation_names import seen

    directory = view_directory(config.apply.state, config.source.name, definition.name)
    live = read_generations(directory).live
    if live is None or differing(live.declared, declared(definition)):
        return tables
    state = live_state(directory)
    versions = {name: {table.schema_id: table} for name, table in tables.items()}
    namings = namings_of(state, definition, versions)
    found = {name: seen(table, namings[name]) for name, table in tables.items()}
    if all(found[name].key == table.key for name, table in tables.items()):
        return found
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        named = Names(broker, config.source.own_topic, definition, state).under(versions)
    return {one.name: one for of_table in named.values() for one in of_table.values()}


class _Tables:
    """The captured tables as a view has them, each looked up once."""

    def __init__(self, source: Source, mirrors: StateMirrors) -> None:
        self._source, self._mirrors = source, mirrors
        self.oids = {f"{table.schema}.{table.name}": table.oid for table in source.tables}
        self._types = load_types(source.conn)
        self._found: dict[tuple[str, bool], TableVersion] = {}
        self._relations: dict[tuple[str, str], str] = {}

    def of(self, definition: ViewDefinition) -> Mapping[str, TableVersion]:
        """What a view reads. Raises ``ViewError`` for a table that is not captured."""
        from views.parse.uncaptured_tables import uncaptured

        for name in definition.table_names:
            if name not in self.oids:
                raise uncaptured(definition, name, self.oids)
        return {name: self.version(name) for name in definition.table_names}

    def version(self, table: str) -> TableVersion:
        """A captured table as it is now."""
        return self._now(table, computed=False)

    def mirror(self, table: str) -> TableVersion:
        """The same, as its mirror has it."""
        return self._now(table, computed=True)

    def planned(self, table: str) -> MirrorTable:
        """The same as a view is planned over it."""
        from views.maintain.mirror import mirror_of

        embedded = not self._source.config.apply.state_dsn
        if (found := self._mirrors.table(self.oids[table])) is not None:
            return found
        return mirror_of(self.mirror(table), embedded, self._mirrors.lacking, self._lost(table))

    def _lost(self, table: str) -> Callable[[TableColumn], str]:
        from views.spark.lost_columns import lost

        config = self._source.config
        if not config.source.of_debezium:
            return partial(lost, form_of(config))
        from cdc.debezium.table_shapes import lost_now

        found = lost_now(config, self._source.conn, self.oids[table])
        return lambda column: found.get(column.name, "")

    def relation(self, schema: str, table: str) -> str:
        """What a view reads of it, as SQL."""
        from verification.scope import published_relations
        from verification.values.treated_values import TreatedValues

        if (schema, table) not in self._relations:
            settings = self._source.config.source
            publication, excluded = settings.publication_name, settings.excluded
            relations = published_relations(
                self._source.conn, publication, excluded, TreatedValues(settings.treated)
            )
            self._relations[schema, table] = relations(schema, table)
        return self._relations[schema, table]

    def explained(self, view: View, error: HeadwaterError) -> HeadwaterError:
        """The error of a view, or that a column which it names is not published."""
        from views.parse.table_references import tables_read

        try:
            read = {table.name for table in tables_read("", view.sql)}
        except ViewError:  # of its SQL, which is what the error says
            return error
        found = {label: one for (label, _), one in self._found.items() if label in read}
        published = {label: [column.name for column in one.columns] for label, one in found.items()}
        tables = {label: self.oids[label] for label in found}
        settings = self._source.config.source
        return explained(self._source.conn, settings, error, tables, published)

    def _now(self, table: str, computed: bool) -> TableVersion:
        from bootstrap.source_tables import version_now

        if (table, computed) not in self._found:
            conn, oid, settings = self._source.conn, self.oids[table], self._source.config.source
            found = version_now(conn, oid, self._types, settings, computed)
            self._found[table, computed] = found
        return self._found[table, computed]


def _check_in_source(conn: Connection, resolved: maintained.View, publication: str) -> None:
    """Whether PostgreSQL takes the SQL too, as ``headwater verify`` asks it: what parses here may
    be none there."""
    from verification.scope import published_sql

    if said := plan_fault(conn, published_sql(conn, resolved, publication)):
        raise ViewError(
            f"view {resolved.name}: PostgreSQL rejects its SQL: {said}",
            "correct the SQL of the view",
        )


def _check_columns(resolved: maintained.View, view: View, store: Store) -> None:
    """Whether the store has such names, and what the view says of it is about columns it has."""
    check_columns(resolved.name, view, store, [(one.name, one.type) for one in resolved.outputs])
