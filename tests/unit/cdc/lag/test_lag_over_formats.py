"""Lag over records whose schemas are in a registry."""

from __future__ import annotations

from cdc.config.registry import Registry
from cdc.errors import LogError
from cdc.events.formats.avro_schema import avro_schema
from cdc.events.formats.avro_writer import avro_writer
from cdc.events.formats.framing import framed
from cdc.events.schemas.schema import INT64, struct
from cdc.lag.view_lags import Moment, view_lags
from cdc.registry.schemas import Document, SchemaRegistry, values_of
from headwater.cli.dead_letters.registry_values import in_json
from tests.support.events.log_in_memory import TABLE, LogInMemory
from verification.view_positions import applied_below

SCHEMA = struct("s.Envelope", source=struct("s.Source", commit_lsn=INT64, ts_ms=INT64))
VALUE = framed(7) + avro_writer(SCHEMA)(b'{"source":{"commit_lsn":70,"ts_ms":5000}}')


def registry() -> SchemaRegistry:
    found = {7: Document("AVRO", avro_schema(SCHEMA))}
    return SchemaRegistry(Registry(url="http://127.0.0.1:9"), found)


def test_the_first_change_that_waits_is_read_by_its_schema() -> None:
    log = LogInMemory()
    log.records[TABLE] += [VALUE, VALUE]
    log.mark(90)
    log.apply("v", 1)
    read, moment = values_of(registry()), Moment(100, 90, 9.0)
    (found,), errors = view_lags(log, {"v": [TABLE]}, moment, read)
    assert (found.behind_bytes, found.behind_s) == (30, 4.0)
    assert not errors
    assert applied_below(log, "s", "v", [TABLE], read) == 70
    _, errors = view_lags(log, {"v": [TABLE]}, moment)
    assert isinstance(errors["v"], LogError)


def test_dead_letters_are_shown_as_json_where_their_schema_is_known() -> None:
    assert in_json(registry(), VALUE) == b'{"source":{"commit_lsn":70,"ts_ms":5000}}'
    assert in_json(registry(), VALUE + b"x") == VALUE + b"x"
    assert in_json(registry(), b"no frame") == b"no frame"
    assert in_json(None, VALUE) == VALUE
