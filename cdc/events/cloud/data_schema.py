"""The schema of ``data``: both images. Pure."""

from __future__ import annotations

from cdc.events.form import Form
from cdc.events.schemas.event_schemas import event_schema
from cdc.events.schemas.schema import Schema
from cdc.protocol.relation import Relation

_NAME = "io.debezium.connector.postgresql.Data"


def data_schema(relation: Relation, source: str, form: Form, *, relaxed: bool = False) -> Schema:
    """See ``cdc.events.schemas.event_schemas.event_schema``."""
    images = dict(event_schema(relation, source, form, relaxed=relaxed).fields)
    return Schema("struct", name=_NAME, fields=tuple((n, images[n]) for n in ("before", "after")))
