"""Mirrors of source tables, which views of several rows, or with objects, are made from.

A mirror is a Delta table of row versions, one for each table and generation of a view. A batch
appends the rows it changed, with the position of the change and the number of the attempt that
wrote them (``jobs.delta_engine.mirrors.attempts``); the newest version of a key is the row, unless
it is a deletion. So both states that maintenance needs, before a batch and after it, are always
there, and a batch that was killed leaves nothing that has to be undone.

Small reads and writes go through delta-rs in this process: they take milliseconds, where a Spark
job takes tenths of a second. What is read whole is read by Spark. Both read one log.
"""
