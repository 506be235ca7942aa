"""One captured table in a session: its relation, and what its topics get. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cdc.errors import ProtocolError, SourceError
from cdc.events.envelope import SourceContext, Transaction
from cdc.events.records import schema_record
from cdc.events.table_output import Output
from cdc.events.unpublished_records import Outgoing
from cdc.protocol.messages import RelationColumn, RelationMessage, Values, filled
from cdc.protocol.relation import Relation
from cdc.routes.faults import route_faults
from cdc.topics import schemas_topic

Resolver = Callable[[RelationMessage, int, int], Relation]
"""What a relation is, with xid and commit LSN of the transaction that it is described in. It has
the columns of the message, in their order, but for those that must not leave the source."""
Lookup = Callable[[Relation, Values, int], Values | None]
"""What a row holds now, by its key, for the transaction with this xid."""


class Table:
    """One version of a table. ``begun`` is the commit LSN its encoders are ready for, ``width`` how
    many columns rows are sent with; ``places`` are those of the relation among them, None for all:
    the others must not leave the source. ``rows`` forms keys and images, which are the same in all
    topics. ``by_column``: whether many rows may be formed at once (``cdc.columnar``)."""

    __slots__ = ("begun", "by_column", "first", "outputs", "places", "relation", "rows", "width")

    def __init__(
        self, relation: Relation, context: SourceContext, sent: Sequence[RelationColumn]
    ) -> None:
        self.relation = relation
        outputs = [Output(relation, of_topic, at) for of_topic, at in context.outputs(relation)]
        self.first, self.outputs = outputs[0], outputs
        self.rows = self.first.encoder.rows
        self.by_column = len(outputs) == 1 and not self.first.positioned
        self.begun = -1
        self.width = len(relation.columns)
        self.places: list[int] | None = None
        if self.width < len(sent):
            self.width = len(sent)
            kept = {column.name for column in relation.columns}
            self.places = [at for at, column in enumerate(sent) if column.name in kept]

    def begin(self, transaction: Transaction, partitions: Callable[[str], int]) -> None:
        """Rows of the transaction follow; ``partitions`` is how many a topic has."""
        for output in self.outputs:
            output.partitions = partitions(output.topic)
            output.encoder.begin(transaction)
        self.begun = transaction.commit_lsn

    def having(self, op: bytes) -> Sequence[Output]:
        """Those in which an operation has records."""
        if len(self.outputs) == 1:
            return () if op in self.first.skipped else self.outputs
        return [one for one in self.outputs if op not in one.skipped]

    def received(self, values: Values) -> Values:
        """The relation's columns of a row that was sent. Raises ``ProtocolError`` for a row that is
        not of this version: PostgreSQL 15.0 and 15.1 leave columns out of rows under a column list.
        """
        if len(values) != self.width:
            raise ProtocolError(
                f"pgoutput: a row of {len(values)} columns in {self.relation.name}, whose "
                f"description has {self.width}",
                "update the server: PostgreSQL 15.0 and 15.1 send this for tables with a column "
                "list",
            )
        return values if self.places is None else [values[at] for at in self.places]


class Tables:
    """The tables that were described in this session, by OID.

    ``resolve`` is asked with a version's first row, ``partitions`` for a topic before it, so that
    the topic is there then. A description alone asks nothing: the server describes each partition,
    whose rows are their root's, and the root with each of them again. A table's description goes to
    ``__schemas`` ahead of the rows that name it.
    """

    def __init__(
        self,
        context: SourceContext,
        partitions: Callable[[str], int],
        resolve: Resolver,
        lookup: Lookup,
        out: Outgoing,
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._resolve = resolve
        self._lookup = lookup
        self._out = out
        self._announced: dict[int, RelationMessage] = {}
        self._described: dict[int, tuple[RelationMessage, int]] = {}
        self._tables: dict[int, Table] = {}
        self._owners: dict[str, tuple[int, tuple[str, str]]] = {}

    def announce(self, message: RelationMessage, commit_lsn: int) -> None:
        """The rows that follow are of this version. What a transaction has brought already it
        brings no second time: the catalog is asked for how it left the table."""
        if self._described.get(message.oid) != (message, commit_lsn):
            self._announced[message.oid] = message
            self._tables.pop(message.oid, None)

    def described(self, oid: int, xid: int, commit_lsn: int) -> Table | None:
        """A table of which a row of this transaction is next; None if the server has not described
        it."""
        table = self._tables.get(oid)
        if table is None and (message := self._announced.pop(oid, None)) is not None:
            relation = self._resolve(message, xid, commit_lsn)
            self._refuse_other(relation)
            self._out.add(schemas_topic(self._context.name), schema_record(relation, commit_lsn))
            table = self._tables[oid] = Table(relation, self._context, message.columns)
            self._described[oid] = message, commit_lsn
        return table

    def _refuse_other(self, relation: Relation) -> None:
        """Raise ``SourceError`` for a table that came up in a topic of another one."""
        source, form = self._context.name, self._context.form
        named = relation.schema, relation.table
        for topic in form.place(source, *named).topics:
            oid, owner = self._owners.setdefault(topic, (relation.oid, named))
            if owner != named and oid != relation.oid:
                for fault in route_faults(source, form.routes, [owner, named]):
                    raise SourceError(fault, "stop capture, correct it, and start capture")

    def ready(self, oid: int, transaction: Transaction) -> Table:
        """The table, its encoder ready for the transaction. Raises ``ProtocolError``."""
        table = self.described(oid, transaction.xid or 0, transaction.commit_lsn)
        if table is None:
            raise ProtocolError(f"pgoutput: a row of relation {oid} before its description")
        if table.begun != transaction.commit_lsn:
            table.begin(transaction, self._partitions)
        return table

    def completed(self, table: Table, new: Values, xid: int) -> Values:
        """The row with unchanged values that no consumer has, read from the source. What changes
        them later is streamed; a row that is gone by now is deleted by a later event.
        """
        now = self._lookup(table.relation, table.rows.key_values(new), xid)
        return new if now is None else filled(new, now, True, ())
