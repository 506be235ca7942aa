"""The same events as ``cdc.events.change`` gives, formed many rows at a time. Pure.

A stretch of plain frames (begins, commits, inserts, updates and deletes that need no second look)
is turned into columns, each column into JSON at once, and the columns into events:

    frames ─▶ stretch ─▶ tuples ─▶ columns of values ─▶ columns of JSON ─▶ keys, values ─▶ Block

numpy finds where every value stands, Arrow copies and joins; no Python runs for a single row. A
snapshot's rows go the same way from COPY's text (``copied``, ``snapshot``). ``cdc.events.change``
stays what says how a change is written: whatever is not plain goes through it frame by frame, and
so does a stretch in which anything looks odd, so that its error is raised there.
``tests/unit/cdc/columnar/test_columnar.py`` and ``test_snapshot_columns.py`` hold the two to the
same bytes. Measured in decision 6.
"""
