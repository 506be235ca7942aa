"""One micro-batch of all topics: read, parsed and folded to the last change of each key.

No table's columns are known here: images are the JSON text that events carry, byte for byte. A
small batch goes through a plan that Spark made once (``small``), a large one through Spark's tasks
(``large``). Both give the rows of ``folded.SCHEMA``.
"""
