"""The state database: a PostgreSQL that keeps what views are computed from, and where they are.

It is embedded by default, started and stopped by ``headwater apply``, or any other one that
``apply.state_dsn`` names; never the source. ``server.state_server`` opens it. Our own tables are in
its schema ``headwater`` (``migrations/``), mirrors of the source's tables in ``mirror``, and what a
generation of a view keeps in ``dirty`` and ``shown``.
"""
