"""Avro schemas and records are those that Connect's AvroConverter makes, to the byte.

Recorded by ``python -m tests.oracle.record_avro``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc.events.formats.avro_reader import avro_reader
from cdc.events.formats.avro_schema import avro_schema
from cdc.events.formats.avro_writer import avro_writer
from tests.oracle.avro_records import Given, given
from tests.oracle.record_avro import RECORDED

RECORDS: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("one", given(), ids=lambda one: one.name)
def test_schema_and_record_are_connects_to_the_byte(one: Given) -> None:
    theirs = RECORDS[one.name]
    assert avro_schema(one.schema) == theirs["document"]
    assert avro_writer(one.schema)(one.text).hex() == theirs["hex"]
    assert theirs["back"] == json.loads(one.text)
    assert avro_reader(theirs["document"])(bytes.fromhex(theirs["hex"])) == theirs["back"]
