"""The schema of a table's rows as values. Pure."""

from __future__ import annotations

from cdc.events.flat.added_fields import Added, added_fields, deleted_field
from cdc.events.form import Form
from cdc.events.schemas.event_schemas import event_schema
from cdc.events.schemas.schema import Schema
from cdc.protocol.relation import Relation


def extra_fields(form: Form) -> list[Added]:
    """What a row has beside its columns, in order."""
    marked = [deleted_field()] if form.rewrites_deletes else []
    return [*marked, *added_fields(form.added)]


def row_schema(
    relation: Relation, source: str, form: Form, *, old: bool = False, relaxed: bool = False
) -> Schema:
    """Of new images, or of ``old`` ones; see ``cdc.events.schemas.event_schemas.event_schema``."""
    images = dict(event_schema(relation, source, form, relaxed=relaxed).fields)
    image = images["before" if old else "after"].as_optional(False)
    more = [(one.name, one.schema) for one in extra_fields(form)]
    return Schema("struct", name=image.name, fields=(*image.fields, *more))
