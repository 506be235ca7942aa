"""Relation messages completed from the catalog, and rows read again by their key.

The two questions that the stream cannot answer by itself. The first comes once for each table
version and session, which may have thousands of tables; the second for every row of an UPDATE that
moves keys. So their session stays open until ``close``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from cdc.errors import HeadwaterError, RetryableError
from cdc.protocol.messages import UNCHANGED, RelationMessage, Value, Values
from cdc.protocol.relation import Relation, TypeInfo
from cdc.source.attribute_numbers import Before
from cdc.source.bounded_query import answered
from cdc.source.catalog import table_facts
from cdc.source.columns.treated_columns import StreamColumns
from cdc.source.errors import sqlstate, translated
from cdc.source.postgres import Connection, connect, identifier
from cdc.source.relations import describe
from cdc.source.types import load_types

# By OID: the table may have another name by now, and so may its columns.
_NOW = """
select pg_catalog.format('%%s%%I.%%I', case c.relkind when 'p' then '' else 'ONLY ' end,
                         n.nspname, c.relname),
       array(select a.attnum::int from pg_catalog.pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
       array(select a.attname::text from pg_catalog.pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum),
       array(select a.atttypid::bigint from pg_catalog.pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = %s::oid
"""
# Types of extensions bring their own `=`, which the search path (pg_catalog alone) does not find:
# the one that the type's indexes go by, so that the key's is used.
_EQUALS = """
with recursive type as (
    select a.attnum, t.oid, t.typbasetype, t.typnamespace
    from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
    where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped
    union all
    select d.attnum, t.oid, t.typbasetype, t.typnamespace
    from type d join pg_catalog.pg_type t on t.oid = d.typbasetype
)
select distinct on (type.attnum) type.attnum::int,
       pg_catalog.format('operator(%%I.%%s)', n.nspname, o.oprname)
from type
join pg_catalog.pg_opclass c on c.opcintype = type.oid and c.opcdefault
join pg_catalog.pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
join pg_catalog.pg_amop a on a.amopfamily = c.opcfamily and a.amopstrategy = 3
    and a.amoplefttype = type.oid and a.amoprighttype = type.oid
join pg_catalog.pg_operator o on o.oid = a.amopopr
join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
where type.typbasetype = 0 and n.nspname <> 'pg_catalog'
"""
# A commit is in WAL, and decoded, before any session sees it: a moment, or for as long as it waits
# for a synchronous standby. The id is 32 bits wide; of those that end so it is the one nearest to
# the ids of now.
_SEEN = """
select pg_catalog.pg_visible_in_snapshot(
           (n.xid + ((%(xid)s - n.xid + 2147483648) & 4294967295) - 2147483648)::text::xid8, s.now)
from pg_catalog.pg_current_snapshot() s (now),
     lateral (select pg_catalog.pg_snapshot_xmax(s.now)::text::bigint) n (xid)
"""
_SCHEMA_MOVED: Final = frozenset({"42P01", "42703"})
"""Undefined table, undefined column."""


class _AlteredError(RetryableError):
    """Names may have been other columns' when the row was read."""


class _Now(NamedTuple):
    """A table at present, quoted, and its columns by attnum: what each is called, and its type, and
    what compares it where that is not ``=``."""

    table: str
    columns: dict[int, tuple[str, int]]
    equals: dict[int, str]


class Describer:
    """Resolves Relation messages; ``described`` is called with each relation."""

    def __init__(
        self,
        dsn: str,
        keys: Mapping[str, Sequence[str]],
        described: Callable[[Relation], None],
        publication: str,
        columns: StreamColumns | None = None,
    ) -> None:
        self._dsn, self._publication = dsn, publication
        self._keys = keys
        self._described, self._columns = described, columns
        self._types: dict[int, TypeInfo] = {}
        self._asked: set[int] = set()
        self._conn: Connection | None = None
        self._seen = 0
        self._tables: dict[int, _Now] = {}

    def resolve(self, message: RelationMessage, before: Before | None = None) -> Relation:
        """The relation with type names, nullability, attnums and its key in order. ``before`` is
        the table at an earlier position."""
        try:
            conn = self._session()
            with answered(conn):
                self._learn_types(conn, {column.type_oid for column in message.columns})
                facts = table_facts(conn, message.oid, self._publication)
                configured = self._keys.get(f"{message.schema}.{message.table}", ())
                relation = describe(message, facts, self._types, configured, before)
                if self._columns is not None:
                    relation = self._columns.applied(conn, relation, facts)
        except BaseException:
            self.close()
            raise
        self._described(relation)
        return relation

    def _learn_types(self, conn: Connection, oids: set[int]) -> None:
        """Those that are not known yet; of what is gone by now no more is to be learnt."""
        if new := oids - self._asked:
            self._types |= load_types(conn, new)
            self._asked |= new

    def sees(self, xid: int) -> bool:
        """Whether ``lookup`` sees what this transaction, which has committed, has written."""
        if xid == self._seen:
            return True
        try:
            conn = self._session()
            with answered(conn), translated("asking whether a transaction is visible"):
                row = conn.execute(_SEEN, {"xid": xid}).fetchone()
        except BaseException:
            self.close()
            raise
        if row == (True,):
            self._seen = xid
        return xid == self._seen

    def lookup(self, relation: Relation, key: Values) -> Values | None:
        """The row as it is now, in wire form; None when it is gone, or its table or key is.

        A column is known by its attnum. One that is no longer there, or not of that type, is
        ``UNCHANGED``: whoever changed the table since then has settled what becomes of its values.
        Where attnums are not known it is known by name and type (``present``). Raises
        ``RetryableError`` for a table that is altered meanwhile.
        """
        if not relation.key:
            return None
        try:
            conn = self._session()
            for attempt in range(2):
                try:
                    with answered(conn):
                        return self._row_now(conn, relation, key)
                except HeadwaterError as error:  # DDL since the table was looked up
                    was_kept = self._tables.pop(relation.oid, None)
                    is_altered = isinstance(error, _AlteredError)
                    moved = was_kept or is_altered or sqlstate(error) in _SCHEMA_MOVED
                    if attempt or conn.closed or not moved:
                        raise
            return None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the session that rows are read in; the next ``lookup`` opens another."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None
        self._tables.clear()

    def _row_now(self, conn: Connection, relation: Relation, key: Values) -> Values | None:
        with translated(f"reading a row of {relation.name}"):
            if relation.oid not in self._tables and (found := _now(conn, relation.oid)):
                self._tables[relation.oid] = found
            now = self._tables.get(relation.oid)
            if now is None:
                return None
            row = _row(conn, relation, key, now)
            if _columns(conn, relation.oid) != (now.table, now.columns):
                raise _AlteredError(f"{relation.name} was altered while its rows were read")
        return row

    def _session(self) -> Connection:
        if self._conn is None:
            self._conn = connect(self._dsn)
        return self._conn


def _row(conn: Connection, relation: Relation, key: Values, now: _Now) -> Values | None:
    numbers = present(relation, now.columns)
    number_of = {c.name: at for c, at in zip(relation.columns, numbers, strict=True)}
    parts = [at for name in relation.key if (at := number_of[name]) is not None]
    if len(parts) < len(relation.key):
        return None

    def called(attnum: int) -> str:
        return identifier(now.columns[attnum][0])

    columns = ", ".join(called(at) for at in numbers if at is not None).replace("%", "%%")
    where = " and ".join(
        f"{called(part)} {now.equals.get(part, '=')} ".replace("%", "%%") + "%s" for part in parts
    )
    query = f"select {columns} from {now.table.replace('%', '%%')} where {where}"
    parameters = [value.decode() if isinstance(value, bytes) else None for value in key]
    result = conn.execute(query.encode(), parameters, prepare=False).pgresult
    if result is None or result.ntuples == 0:
        return None
    read = iter(range(result.nfields))
    row: list[Value] = [
        UNCHANGED if attnum is None else result.get_value(0, next(read)) for attnum in numbers
    ]
    return row


def _now(conn: Connection, oid: int) -> _Now | None:
    if (found := _columns(conn, oid)) is None:
        return None
    return _Now(*found, dict(conn.execute(_EQUALS, (oid,)).fetchall()))


def _columns(conn: Connection, oid: int) -> tuple[str, dict[int, tuple[str, int]]] | None:
    found = conn.execute(_NOW, (oid,)).fetchone()
    if found is None:
        return None
    table, numbers, names, types = found
    return table, dict(zip(numbers, zip(names, types, strict=True), strict=True))


def present(relation: Relation, columns: Mapping[int, tuple[str, int]]) -> list[int | None]:
    """The attnum by which each column is still there, with its type; None for one that is not.

    ``columns`` are those of now, by attnum, with name and type. Where the relation's attnums are
    not known it is those of the same name and type, if they stand in the same order: names that
    were exchanged do not.
    """
    # A treated column is text in events; the row is read in the type that it has in the source.
    sent = [
        (one.name, one.treatment.of_type if one.treatment else one.type.oid)
        for one in relation.columns
    ]
    numbers = [column.attnum for column in relation.columns]
    if None in numbers:
        named = {said: attnum for attnum, said in columns.items()}
        found = [named.get(said) for said in sent]
        known = [attnum for attnum in found if attnum is not None]
        return found if known == sorted(known) else [None] * len(sent)
    types = {attnum: type_oid for attnum, (_, type_oid) in columns.items()}
    pairs = zip(numbers, sent, strict=True)
    return [
        at if at is not None and types.get(at) == type_oid else None for at, (_, type_oid) in pairs
    ]
