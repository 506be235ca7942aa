"""Capture: PostgreSQL's logical replication stream becomes events in Kafka.

The kernel (``lsn``, ``pgoutput``, ``relation``, ``values``, ``envelope``, ``topics``, ``progress``)
is pure standard library and does no I/O. Around it stand the edges, one third-party client each,
then the capture loop, the configuration and the command line.
"""
