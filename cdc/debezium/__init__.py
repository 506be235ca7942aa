"""Topics that a Debezium connector fills, made readable for views: ``[source] events``.

Nobody describes the tables of such topics, nor says how far they have come. ``headwater apply``
does: table versions from the source's catalog go to ``<source>.__schemas``, and what the
connector's slot has confirmed goes to ``<source>.__progress``, as capture would write them.
"""
