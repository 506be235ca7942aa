"""Tables that an account is granted and nobody captures: misspelt, mostly. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc.source.selection import meant


def unknown_grants(granted: Sequence[str], captured: Sequence[str]) -> Iterator[str]:
    """A line for each of the grants that gives nothing now. Both are ``schema.table``; a grant may
    be ``schema.*`` or ``*``."""
    schemas = {label.split(".", 1)[0] for label in captured}
    for grant in granted:
        schema, _, table = grant.partition(".")
        if grant == "*" or grant in captured or (table == "*" and schema in schemas):
            continue
        if table == "*":
            yield f"--table {grant}: no table of schema {schema} is captured"
            continue
        way = meant(grant if table else f"public.{grant}", captured)
        yield f"--table {grant}: no table of that name is captured{f'; {way}' if way else ''}"
