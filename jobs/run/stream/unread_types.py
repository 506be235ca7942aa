"""Why a batch is not applied yet: its values are not those of the types that mirrors have."""

from __future__ import annotations

from collections.abc import Collection

from cdc.errors import RetryableError


class StaleTypesError(RetryableError):
    """The source's own types are to be read again before a batch is applied."""

    def __init__(self) -> None:
        super().__init__(
            "values do not fit the known types of the source", "wait: the types are read again"
        )


class UnknownLabelsError(RetryableError):
    """Mirrors of ``tables``, ``schema.table``, have to be filled again before a batch is applied:
    what its events call labels of enums is not known."""

    def __init__(self, tables: Collection[str]) -> None:
        super().__init__(
            f"events of {', '.join(sorted(tables))} have labels that were renamed since",
            "wait: the mirrors are filled again",
        )
        self.tables = tables
