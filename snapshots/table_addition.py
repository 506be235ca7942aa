"""A table joins a running capture: its changes from one commit on, its rows at an LSN after that.

    topics ─▶ ALTER PUBLICATION commits at P ─▶ slot at L > P ─▶ rows at (L, 0), into the same topic

Every transaction that began before P has ended when the slot is made, so the snapshot sees it;
whatever commits at or above L is streamed whole. Between P and L both may tell of a row, and the
position says which is newer. Capture needs no word of it: it opens the topic with the first change.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from cdc.capture.routed_tables import check_joining
from cdc.config import Config, Source
from cdc.errors import SourceError, UsageError
from cdc.events.marks import Mark
from cdc.kafka.broker import Broker, Offsets
from cdc.kafka.marks import own_mark, refuse_other_form
from cdc.kafka.topology import topic_specs
from cdc.routes.patterns import parse_pattern
from cdc.source.catalog import captured_tables, chosen_tables, relation
from cdc.source.columns.excluded_columns import column_lists
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.postgres import Connection, connect
from cdc.source.publication import add_tables, read_publication
from cdc.source.selection import Table
from cdc.source.slot import identify, slot_state
from cdc.source.types import load_types
from snapshots import snapshot_on_demand
from snapshots.job import Observer
from snapshots.refusals import refuse_outliving, refuse_server, refuse_uninitialised
from snapshots.snapshot_on_demand import Options
from snapshots.status import Standing, snapshots


def join(
    config: Config, names: Sequence[str], options: Options, observer: Observer
) -> list[Standing]:
    """Publish the tables that ``names`` choose (as in ``source.tables``) and snapshot them into
    their own topics. What an earlier run began is completed first. Returns the snapshots made.

    Raises ``SourceError`` for whatever speaks against it, before anything is made.
    """
    source = config.source
    with connect(source.dsn, application_name="headwater table") as conn:
        refuse_server(conn)
        refuse_uninitialised(conn, source.name)
        chosen = _chosen(conn, config, names)
        published = _published(conn, source.publication_name)
        known = snapshots(conn, source.name)
        begun = [one for one in known if _begun(one, chosen)]
        held = {label for one in begun for label in one.joining}
        held |= {label for one in known for label in _whole(one)} & published
        new = [table for table in chosen if table.label not in held]
        if not new and not begun:
            raise SourceError(
                f"captured already: {', '.join(table.label for table in chosen)}",
                "use `headwater snapshot start` to read a table again, into a separate topic",
            )
        _refuse_unknown(conn, source, new)
        if new and not options.despite_forecast:
            refuse_outliving(conn, config, new, options.rate)
        if any(table.label in source.treated for table in new):  # and capture does not run
            StreamColumns(source).begin(conn)
        ids = [one.id for one in begun]
        if new:
            ids.append(_publish(conn, config, new, published, options, observer))
    return [snapshot_on_demand.run(config, snapshot_id, observer) for snapshot_id in ids]


def _chosen(conn: Connection, config: Config, names: Sequence[str]) -> list[Table]:
    """Those of the configured tables that are named. Topics that would collide are refused."""
    every, chosen = captured_tables(conn, config.source), dict[str, Table]()
    for name in names:
        try:
            pattern = parse_pattern(name)
        except ValueError as error:
            raise UsageError(str(error)) from None
        matched = [table for table in every if pattern.matches(table.schema, table.name)]
        if not matched:
            raise _not_chosen(conn, config.source, name)
        chosen |= {table.label: table for table in matched}
    return list(chosen.values())


def _not_chosen(conn: Connection, source: Source, name: str) -> SourceError:
    """Why no configured table has that name."""
    alone = source.model_copy(update={"tables": (name,), "exclude": ()})
    found, problems = chosen_tables(conn, alone, setting="")
    if problems and not found:
        return SourceError("\n".join(problems))
    everything = source.model_copy(update={"exclude": ()})
    chosen = {table.label for table in chosen_tables(conn, everything)[0]}
    if any(table.label in chosen for table in found):
        return SourceError(
            f"{name} is excluded by source.exclude", "remove it there, then run this again"
        )
    return SourceError(
        f"{name} is not in source.tables",
        "add it there first, then run this again",
    )


def _refuse_unknown(conn: Connection, source: Source, tables: Sequence[Table]) -> None:
    """A key of ``source.keys`` has to be one; and capture reads them, routes, and how columns are
    treated, at its start alone: it would publish the table's changes without a key, or as they are,
    or elsewhere."""
    types, name = load_types(conn), source.publication_name
    for table in tables:
        shape = relation(conn, table.oid, types, name, source.keys)
        if table.label in source.treated:
            what = f"the treatment of columns of {table.label} is in source.columns"
        elif source.place(table.schema, table.name).route >= 0:
            what = f"the topic of {table.label} is in source.routes"
        elif shape.key != relation(conn, table.oid, types, name).key:
            what = f"the key of {table.label} is in source.keys"
        else:
            continue
        slot = slot_state(conn, source.slot_name)
        if slot is not None and slot.active:
            raise SourceError(
                f"{what}, which the running capture does not know",
                "stop capture, run this again, and start capture",
            )


def _begun(one: Standing, chosen: Sequence[Table]) -> bool:
    """Whether an earlier run for one of the tables did not come to its end."""
    ours = not {table.label for table in chosen}.isdisjoint(one.joining)
    return ours and one.status not in ("complete", "cancelled")


def _whole(one: Standing) -> list[str]:
    """The tables whose rows it brought to the tables' own topics."""
    if not one.complete or not (one.kind == "initial" or one.joining):
        return []
    return [table.label for table in one.tables]


def _published(conn: Connection, name: str) -> set[str]:
    publication = read_publication(conn, name)
    if publication is None:
        raise SourceError(
            f"there is no publication {name}",
            "run `headwater init --again`: changes made without it are not captured",
        )
    if publication.wholesale:
        raise SourceError(
            f"publication {name} is {publication.wholesale}: no table can be added to it",
            "use `headwater snapshot start` to read one of its tables into a separate topic",
        )
    return {f"{schema}.{table}" for schema, table in publication.tables}


def _publish(
    conn: Connection,
    config: Config,
    tables: Sequence[Table],
    published: AbstractSet[str],
    options: Options,
    observer: Observer,
) -> int:
    """Topics, then the record of the snapshot with the publication: both stand, or none. Its id."""
    source = config.source
    joining = [table for table in tables if table.label not in published]
    lists = column_lists(conn, source, chosen_tables(conn, source)[0])
    topics = source.topics((table.schema, table.name) for table in tables)
    with Broker(config.kafka.bootstrap_servers, config.kafka) as broker:
        mark = own_mark(broker, source.name, identify(conn))
        refuse_other_form(config, mark.form)
        check_joining(config, broker, [(table.schema, table.name) for table in tables], mark)
        created = broker.create_topics(topic_specs(config, tables))
        ends = broker.end_offsets(topics)
    observer.step(f"topics: {len(created)} created")
    used = [table.label for table in joining if was_captured(source, table, mark, ends)]
    with conn.transaction():
        snapshot_id = snapshot_on_demand.record(
            conn, config, tables, options, joining=True, used=used
        )
        if joining:
            add_tables(conn, source.publication_name, joining, lists)
    observer.step(f"publication {source.publication_name}: {len(joining)} added")
    return snapshot_id


def was_captured(source: Source, table: Table, mark: Mark, ends: Offsets) -> bool:
    """Whether Kafka holds records of a table that left: what changed meanwhile is in no stream. In
    a topic of several tables those of others say nothing of it, but marks remember it. Pure."""
    place = source.place(table.schema, table.name)
    return any(ends[place.topic].values()) and (not place.shared or table.label in mark.routed)
