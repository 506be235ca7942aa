"""Records in formats whose schemas are in a registry. Pure.

What is written is made of an event's JSON in a form with schemas (``cdc.events.schemas``):
``avro_schema``, ``json_schema`` and ``protobuf_messages`` translate a schema, ``avro_writer`` and
``protobuf_writer`` its values, ``avro_reader`` and ``protobuf_reader`` bring them back to that
JSON. ``framing`` is what stands in front of a record, ``subjects`` under which name a registry
keeps a schema. ``cdc.columnar.formats`` does the same for many rows at once.
"""
