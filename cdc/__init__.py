"""Capture: PostgreSQL's logical replication stream becomes events in Kafka.

The rooms follow the data: ``source`` (PostgreSQL), ``protocol`` (what it says), ``events`` (what
that means) and ``columnar`` (the same, many rows at a time), ``kafka`` (where it goes), and
``capture``, the loop that moves it. ``protocol`` and ``events`` are the kernel: standard library,
no I/O. ``config``, ``cli`` and ``preflight`` are what people meet.
"""
