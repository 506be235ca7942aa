"""``[stores.NAME]`` and ``[views.NAME]`` of a ``headwater.toml``: the places views are kept in, and
what a view says of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from cdc.config.values import OpenSearchUrl, RedisUrl


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Cadence = Annotated[float, Field(ge=0, le=3600)]
"""Least seconds between two writes of a view to a store; 0: as soon as there is something."""


class OpenSearch(Section):
    kind: Literal["opensearch"]
    url: OpenSearchUrl = Field(repr=False)
    user: str = ""
    password: str = Field(default="", repr=False)
    verify_certs: bool = True
    ssl_ca_location: str = ""
    """PEM of who signed the server's certificate; else whom the system trusts."""
    cadence_s: Cadence = 0.0


class Redis(Section):
    kind: Literal["redis"]
    url: RedisUrl = Field(repr=False)
    cluster: bool = False
    ssl_ca_location: str = ""
    """As OpenSearch's, for ``rediss://``; whom the system trusts is trusted, too."""
    cadence_s: Cadence = 0.0

    @model_validator(mode="after")
    def _a_cluster_has_one_database(self) -> Redis:
        if self.cluster and urlsplit(self.url).path not in ("", "/", "/0"):
            raise ValueError("url: a cluster has no database but 0: end it with /0")
        return self


class Delta(Section):
    kind: Literal["delta"]
    path: str
    optimize_batches: int = Field(default=20, ge=0)
    """Once in so many batches small files are counted; 0: never, and nothing is vacuumed."""
    small_files: int = Field(default=32, ge=2)
    """So many may be there before they are joined."""
    retention_days: int = Field(default=7, ge=1)
    """How long old versions of a table can be read."""
    cadence_s: Cadence = 2.0


class Postgres(Section):
    """A PostgreSQL that views are kept in: another one than the source, or the same."""

    kind: Literal["postgres"]
    dsn: str = Field(min_length=1, repr=False)
    target_schema: str = Field(default="public", min_length=1, max_length=63)
    cadence_s: Cadence = 0.0


Store = Annotated[OpenSearch | Redis | Delta | Postgres, Field(discriminator="kind")]


class View(Section):
    """A derived store declared in SQL."""

    store: str
    key: tuple[str, ...] = Field(min_length=1)
    sql: str = Field(min_length=1)
    mapping: dict[str, dict[str, Any]] = {}
    """Of an OpenSearch index: fields by column, over those that follow from the types."""
    settings: dict[str, Any] = {}
    """Of an OpenSearch index that people read."""
    format: Literal["document", "hash", "json"] = "document"
    key_template: str = ""
    ttl_s: int = Field(default=0, ge=0)
    index_by: tuple[str, ...] = ()
    """How rows lie in Redis, as the three before it."""
    change_stream: bool = False
    """Whether `headwater serve` serves its rows and their changes."""
    history: Literal["", "log", "scd2"] = ""
    """What a Delta table keeps of rows beside what they are."""
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = Field(default=(), max_length=4)
    change_data_feed: bool = False
    deletion_vectors: bool | None = None
    """How a Delta table is laid out and written, as the three before it. None: a table of versions
    has deletion vectors, which end them where they stand, no other one."""

    @model_validator(mode="after")
    def _rows_of_redis_can_be_kept(self) -> View:
        if self.key_template:
            self._check_template()
        if self.index_by and (self.ttl_s or self.format == "json"):
            raise ValueError("index_by: rows that expire, or are strings, cannot be indexed")
        return self

    @model_validator(mode="after")
    def _changes_are_of_rows(self) -> View:
        if self.change_stream and self.history:
            raise ValueError(
                "change_stream: a history keeps what rows were, and has none: declare a second "
                "view without history"
            )
        return self

    @model_validator(mode="after")
    def _files_of_delta_lie_in_one_way(self) -> View:
        if self.partition_by and self.cluster_by:
            raise ValueError("cluster_by: a table with partition_by has none: keep one of them")
        return self

    def layout_fault(self, columns: Mapping[str, str]) -> str:
        """Why files cannot lie as ``partition_by`` or ``cluster_by`` say, empty if they can;
        ``columns`` are the view's, with their types as Spark names them."""
        for setting in ("partition_by", "cluster_by"):
            for name in getattr(self, setting):
                if name not in columns:
                    return f"its {setting} names {name}, which is no column of it"
                if re.match(_NEVER_LAID_OUT[setting], columns[name]):
                    return f"its {setting} names {name}, which is {columns[name]}"
                if setting == "partition_by" and columns[name] == "string":
                    return (
                        f"its partition_by names {name}, which is text: as a partition '' is null,"
                        " and what is long no name of a folder; cluster_by takes it"
                    )
        return ""

    def _check_template(self) -> None:
        pieces = re.split(r"\{([^{}]+)\}", self.key_template)
        if sorted(pieces[1::2]) != sorted(self.key) or set("{}") & set("".join(pieces[::2])):
            names = ", ".join("{" + name + "}" for name in self.key)
            raise ValueError(f"key_template: name each column of the key once: {names}")
        if not all(pieces[2:-1:2]):
            raise ValueError("key_template: put a character between the columns, as in {a}:{b}")


_NEVER_LAID_OUT = {
    "partition_by": "array|struct|map|binary",
    "cluster_by": "array|struct|map|binary|boolean",
}
"""Types that Delta makes no folders of, or keeps no bounds of."""

OF_KIND = {
    **dict.fromkeys(("mapping", "settings"), "opensearch"),
    **dict.fromkeys(("format", "key_template", "ttl_s", "index_by"), "redis"),
    **dict.fromkeys(
        ("history", "partition_by", "cluster_by", "change_data_feed", "deletion_vectors"), "delta"
    ),
}
"""Settings of a view that one kind of store has."""
