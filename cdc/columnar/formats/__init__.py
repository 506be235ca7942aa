"""Rows in the binary formats of ``cdc.events.formats``, many at a time. Pure.

    column of PostgreSQL's texts ─▶ contents ─▶ cells of a format ─▶ joined, behind the schema's id

``tests/unit/cdc/columnar/test_formats.py`` holds it to the bytes that rows one by one give.
"""
