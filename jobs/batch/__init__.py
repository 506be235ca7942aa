"""One micro-batch of all topics: read, parsed and folded to the last change of each key.

No table's columns are known here: images are the JSON text that events carry, byte for byte. A
small batch is folded in the driver (``small_batch``), a large one by Spark's tasks
(``large_batch``), both by the same code (``task_fold``). The rows are those of
``folded_rows.SCHEMA``.
"""
