"""The encoder of a table's changes, by what values are in the source's topics. Pure."""

from __future__ import annotations

from cdc.events.cloud.cloud_encoder import CONTENT_TYPE, CloudEncoder
from cdc.events.envelope import ChangeEncoder, SourceContext
from cdc.events.flat.row_encoder import FlatEncoder
from cdc.events.form import Form
from cdc.events.records import Header
from cdc.protocol.relation import Relation

Encoder = ChangeEncoder | FlatEncoder | CloudEncoder


def change_encoder(relation: Relation, context: SourceContext) -> Encoder:
    """Of one table version."""
    match context.form.content:
        case "row":
            return FlatEncoder(relation, context)
        case "cloudevents":
            return CloudEncoder(relation, context)
    return ChangeEncoder(relation, context)


def content_headers(form: Form) -> list[Header]:
    """The headers of each event of a table that say what its value is."""
    return [CONTENT_TYPE] if form.content == "cloudevents" else []
