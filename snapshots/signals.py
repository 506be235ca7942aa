"""Signals: snapshots asked for from elsewhere, by a row in ``headwater.signal`` or by a record in
the topic ``<source>.__signal``, in Debezium's words.

A record becomes a row (its id is the offset), so there is one way in. A row is answered in the
transaction that records what it asks for: it is done once, whoever dies. What a signal can be:
https://debezium.io/documentation/reference/stable/configuration/signalling.html
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cdc.config import Config
from cdc.errors import FatalError
from cdc.kafka.broker import Broker, TopicSpec
from cdc.source.errors import translated
from cdc.source.postgres import Connection, connect
from cdc.source.schema_owner import refuse_lesser_owner
from cdc.topics import signal_group, signal_topic
from snapshots import snapshot_on_demand, state
from snapshots.conditions import ConditionError, simple_condition
from snapshots.refusals import refuse_outliving, refuse_unfit
from snapshots.snapshot_on_demand import SIGNAL, Options
from snapshots.status import Standing, snapshots

_MADE = "select pg_catalog.to_regclass('headwater.signal') is not null"
_NEXT = """
select id, type, data from headwater.signal
where taken_at is null and (source is null or source = %s)
order by made_at, id limit 1 for update skip locked
"""
_TAKEN = "update headwater.signal set taken_at = now(), source = %s, answer = %s where id = %s"
_FROM_KAFKA = """
insert into headwater.signal (id, type, data, source) values (%s, %s, %s, %s)
on conflict (id) do nothing
"""
_OPEN: Final = ("running", "interrupted", "paused", "failed")
_MOST_OPEN: Final = 20
"""Snapshots that signals may have begun and that are not over: each has topics, and is read."""
_UNREADABLE: Final = "unreadable"
_PAST_FORECAST: Final = "`headwater snapshot start --despite-forecast`"


class _Words(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class _Condition(_Words):
    table: str = Field(alias="data-collection")
    filter: str


class _Data(_Words):
    """The ``data`` of a signal about snapshots."""

    tables: list[str] = Field(default_factory=list, alias="data-collections")
    conditions: list[_Condition] = Field(default_factory=list, alias="additional-conditions")


class Refused(Exception):  # noqa: N818 -- an answer
    """What a signal asks for cannot be done; the text says why."""


class Signals:
    """Looks for signals. ``launch`` is given the id of a snapshot that is to be run, ``withdraw``
    that of one which is not to be run any more."""

    def __init__(
        self, config: Config, launch: Callable[[int], None], withdraw: Callable[[int], None]
    ) -> None:
        self._config = config
        self._source = config.source.name
        self._launch = launch
        self._withdraw = withdraw

    def interrupted(self) -> None:
        """Launch what signals began and nobody runs any more."""
        with connect(self._config.source.dsn, application_name="headwater signals") as conn:
            if state.read_state(conn, self._source) is None:
                return
            for found in snapshots(conn, self._source):
                if found.options.get("purpose") == SIGNAL and found.status == "interrupted":
                    self._launch(found.id)

    def look(self) -> list[str]:
        """Do what is asked for since the last look; the answers. Raises ``HeadwaterError``."""
        answers = []
        with connect(self._config.source.dsn, application_name="headwater signals") as conn:
            refuse_lesser_owner(conn)
            if conn.execute(_MADE).fetchone() != (True,):
                return []
            if "kafka" in self._config.capture.signals:
                self._fetch(conn)
            while (answer := self._next(conn)) is not None:
                answers.append(answer)
        return answers

    def _next(self, conn: Connection) -> str | None:
        """Answer the oldest signal; None when there is none."""
        with translated("reading headwater.signal"), conn.transaction():
            row = conn.execute(_NEXT, (self._source,)).fetchone()
            if row is None:
                return None
            id_, type_, data = row
            launched: list[int] = []
            try:
                with conn.transaction():
                    answer = self._obey(conn, type_, data, launched)
            except (Refused, FatalError) as error:
                answer, launched = f"refused: {error}", []
            conn.execute(_TAKEN, (self._source, _storable(answer), id_))
        for snapshot_id in launched:
            self._launch(snapshot_id)
        return f"signal {id_}: {answer}"

    def _obey(self, conn: Connection, type_: str, data: str | None, launched: list[int]) -> str:
        if type_ == "log":
            return str(_parsed(data).get("message", ""))
        words = _words(data)
        if type_ == "execute-snapshot":
            launched += self._begin(conn, words)
            return f"snapshot {', '.join(map(str, launched))}"
        if type_ not in ("pause-snapshot", "resume-snapshot", "stop-snapshot"):
            if type_ == _UNREADABLE:
                raise Refused("the record is no JSON object with a type")
            raise Refused(f"{type_!r} is no signal that Headwater knows")
        chosen = self._meant(conn, words)
        if type_ == "resume-snapshot":
            launched += [one.id for one in chosen if one.status != "running"]
        else:
            what = "pause" if type_ == "pause-snapshot" else "cancel"
            for one in chosen:
                self._withdraw(one.id)
                snapshot_on_demand.ask(self._config, one.id, what)
        return f"snapshot {', '.join(str(one.id) for one in chosen)}"

    def _begin(self, conn: Connection, words: _Data) -> list[int]:
        """One snapshot of the tables that are read whole, and one of each that is not."""
        if not words.tables:
            raise Refused("data-collections names no table")
        filters = {one.table: _simple(one) for one in words.conditions}
        if unknown := sorted(filters.keys() - set(words.tables)):
            raise Refused(f"additional-conditions: {unknown[0]} is not among data-collections")
        whole = [name for name in words.tables if name not in filters]
        parts = [(whole, "")] if whole else []
        parts += [([name], where) for name, where in filters.items()]
        config = self._config
        of_signals = sum(
            one.options.get("purpose") == SIGNAL and one.status in _OPEN
            for one in snapshots(conn, self._source)
        )
        if of_signals + len(parts) > _MOST_OPEN:
            raise Refused(
                f"{of_signals} snapshots of signals are not over, and {_MOST_OPEN} may be: wait, "
                "or end some with stop-snapshot"
            )
        chosen = [refuse_unfit(conn, config.source, names) for names, _ in parts]
        for tables in chosen:  # they are read side by side
            refuse_outliving(conn, config, tables, None, risk=_PAST_FORECAST)
        return [
            snapshot_on_demand.record(conn, config, tables, Options(where=where, purpose=SIGNAL))
            for tables, (_, where) in zip(chosen, parts, strict=True)
        ]

    def _meant(self, conn: Connection, words: _Data) -> list[Standing]:
        """The open snapshots of these tables, of all tables if none is named."""
        found = [
            one
            for one in snapshots(conn, self._source)
            if one.kind == "on_demand" and one.status in _OPEN and _concerns(one, words.tables)
        ]
        if not found:
            raise Refused("no snapshot of that is open")
        return found

    def _fetch(self, conn: Connection) -> None:
        """Records become rows; those of other sources are passed over, as Debezium does."""
        topic, group = signal_topic(self._source), signal_group(self._source)
        kafka = self._config.kafka
        with Broker(kafka.bootstrap_servers, kafka) as broker:
            if not broker.partitions([topic]):
                broker.create_topics([TopicSpec(topic, 1, kafka.replication_factor)])
                return
            ends = broker.end_offsets([topic])[topic]
            starts = broker.beginning_offsets([topic])[topic]
            done = broker.committed(group, [topic]).get(topic, {})
            if ends == done:
                return
            for partition, end in ends.items():
                start = max(done.get(partition, 0), starts[partition])
                for record in broker.read(topic, partition, start, end):
                    if record.key == self._source.encode() and record.value is not None:
                        id_ = f"{topic}[{partition}]@{record.offset}"
                        row = (id_, *_of_record(record.value), self._source)
                        conn.execute(_FROM_KAFKA, row)
            broker.commit_group(group, {topic: ends})


def _simple(condition: _Condition) -> str:
    """The filter, parsed. Raises ``Refused``."""
    try:
        return simple_condition(condition.filter)
    except ConditionError as error:
        raise Refused(f"additional-conditions of {condition.table}: {error}") from None


def _concerns(one: Standing, names: list[str]) -> bool:
    return not names or not {table.label for table in one.tables}.isdisjoint(names)


def _of_record(value: bytes) -> tuple[str, str]:
    """Type and data of a record's JSON; what is no JSON, or too deep, is refused when the row is
    read."""
    try:
        said = json.loads(value)
        return _storable(str(said["type"])), json.dumps(said.get("data", {}))
    except (ValueError, KeyError, TypeError, RecursionError):
        return _UNREADABLE, ""


def _storable(text: str) -> str:
    """Without what JSON can say and PostgreSQL's text cannot hold."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def _parsed(data: str | None) -> dict[str, Any]:
    try:
        parsed = json.loads(data or "{}")
    except (ValueError, RecursionError):
        raise Refused("data is no JSON") from None
    if not isinstance(parsed, dict):
        raise Refused("data is no JSON object")
    return parsed


def _words(data: str | None) -> _Data:
    try:
        return _Data.model_validate(_parsed(data))
    except ValidationError as error:
        first = error.errors()[0]
        raise Refused(f"data: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
